"""Settings: which files say what, and which of them wins.

Here: finding and reading ``agentops.toml``, the user's directories, the journals that this user
knows. Not here: the policy file's content (``agentops.policy.config``), hosts' fields
(``agentops.hosts``).
"""

from agentops.config.known import KnownJournal, KnownJournals
from agentops.config.places import Places
from agentops.config.settings import Settings, load_settings

__all__ = ["KnownJournal", "KnownJournals", "Places", "Settings", "load_settings"]
