"""The published DFlash packages, run live beside ours as a second oracle.

They pin versions of torch and transformers that exclude each other, so they are installed without
their dependencies; :data:`WITHOUT_DEPENDENCIES` and :data:`WITH_DEPENDENCIES` say which.
"""

import importlib
import os
import warnings
from types import ModuleType

import pytest

WITHOUT_DEPENDENCIES = (
    "dflash==0.1.0",
    "specforge==0.2.0",
    "speculators==0.9.0",
    "hs-connectors==0.9.0",
)
WITH_DEPENDENCIES = ("datasets>=5", "loguru>=0.7.2", "openai>=3", "pydantic-settings>=2.16")


def peer(module: str) -> ModuleType:
    """A module of a published package; skips the test where it is missing, fails it in CI."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what other packages warn of on import is theirs
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as error:
            missing = f"needs the Python package that has '{error.name}'"
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)
