#!/bin/sh
# Becomes the training, so that who ends it ends it.
exec "$PYTHON" -P train_dflash_pipeline.py run.json
