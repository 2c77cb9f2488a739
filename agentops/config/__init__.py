"""Settings: which files say what, and which of them wins.

Here: finding and reading ``agentops.toml``, and the user's directories. Not here: the policy
file's content (``agentops.policy.config``), hosts' fields (``agentops.hosts``).
"""

from agentops.config.places import Places
from agentops.config.settings import Settings, load_settings

__all__ = ["Places", "Settings", "load_settings"]
