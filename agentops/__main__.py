"""``python -m agentops``: the same as the ``agentops`` script."""

import sys

from agentops.cli import main

if __name__ == "__main__":
    sys.exit(main())
