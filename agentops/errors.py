"""What agentops raises, and nothing else.

    AgentopsError
    ├── UsageError          an argument cannot be used (exit 2)
    └── ConfigError         a file of the operator's cannot be used (exit 2)

What the world can say is a value, not an exception: a refused, failed, lost or garbled command is
an outcome (``journal.events``), a transport answers ``Ended | NotSent | Lost``, a parser
``Malformed``. The journal has errors of its own (``journal.errors``).
"""


class AgentopsError(Exception):
    """Base of all errors raised on purpose; its text is one line for a person."""


class UsageError(AgentopsError):
    """An argument cannot be used: names the argument, its value and the remedy."""


class ConfigError(AgentopsError):
    """A configuration file cannot be used: names file, key, value and the remedy."""
