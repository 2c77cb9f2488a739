"""Where a user's files lie.

Source: XDG Base Directory Specification 0.8 (config and state homes).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentops.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Places:
    """The user's own directories, made when first written to."""

    config: Path
    state: Path

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Places":
        """The directories that the environment names.

        Raises:
            ConfigError: no home directory is known.
        """
        home = environ.get("HOME")
        config = environ.get("XDG_CONFIG_HOME") or (home and f"{home}/.config")
        state = environ.get("XDG_STATE_HOME") or (home and f"{home}/.local/state")
        if not config or not state:
            raise ConfigError(
                "environment: HOME is not set; set it, or XDG_CONFIG_HOME and XDG_STATE_HOME"
            )
        return cls(Path(config) / "agentops", Path(state) / "agentops")

    @property
    def keys(self) -> Path:
        """The key store: signing keys, and which journals they sign."""
        return self.config / "keys"

    @property
    def anchors(self) -> Path:
        """Default place of anchors: outside every journal."""
        return self.state / "anchors"

    @property
    def leases(self) -> Path:
        """Who acts on which host now: shared by all journals of this user."""
        return self.state / "leases"
