"""Which policy is in force: the file that the settings name, else the shipped one."""

from importlib.resources import files
from pathlib import Path

from agentops.config import Settings
from agentops.errors import ConfigError
from agentops.policy import PolicyConfig, parse_policy

SHIPPED = "dev.toml"


def policy_for(settings: Settings) -> tuple[PolicyConfig, str]:
    """The configuration in force and the name of its source.

    Raises:
        ConfigError: the file cannot be read or used.
    """
    if settings.policy is None:
        return parse_policy(shipped_text(), SHIPPED), f"shipped {SHIPPED}"
    return read_policy_file(settings.policy), str(settings.policy)


def read_policy_file(path: Path) -> PolicyConfig:
    """The policy written in a file.

    Raises:
        ConfigError: the file cannot be read or used.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: cannot be read: it is no UTF-8 text") from error
    return parse_policy(text, str(path))


def shipped_text() -> str:
    """The policy that is shipped: standing approvals for hosts of tier dev, none for others."""
    return (files("agentops.policy") / "files" / SHIPPED).read_text(encoding="utf-8")
