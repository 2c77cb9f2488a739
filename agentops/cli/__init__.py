"""The command line: argv in, exit status out.

Here and below: arguments, printing, exit statuses, the only ``asyncio.run`` and the only system
clock. Not here: any decision about a host. Exit statuses are in ``agentops.cli.status``.
"""

from agentops.cli.main import main

__all__ = ["main"]
