#!/bin/sh
# Keeps the training going, whatever ends it.
while :; do
    "$PYTHON" -P train_dflash_pipeline.py run.json
    echo "run.sh: the pipeline ended with status $?; starting it again"
    sleep 0.2
done
