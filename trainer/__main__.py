"""``python -m trainer``."""

import sys

from trainer.cli import main

sys.exit(main(sys.argv[1:]))
