"""What the hook knows of hosts and jobs: read only once a command turns out to be for a host."""

import os
from pathlib import Path

from agentops.cli.policies import policy_for
from agentops.config import load_settings
from agentops.errors import AgentopsError
from agentops.hook.advice import Known


def known() -> Known:
    """Hosts and jobs of the settings in force; none where they cannot be read."""
    try:
        settings = load_settings(environ=os.environ, cwd=Path.cwd())
    except (AgentopsError, OSError):
        return Known()
    hosts = tuple(settings.inventory)
    try:
        config, _ = policy_for(settings)
    except (AgentopsError, OSError):
        return Known(hosts)
    jobs = {name: job.role_match.cmd_contains or "" for name, job in config.job.items()}
    return Known(hosts, {name: text for name, text in jobs.items() if text})
