"""The published DFlash packages, run live beside ours as a second oracle.

They pin versions of torch and transformers that exclude each other, so they are installed without
their dependencies; ``.ci/peers.txt`` says which.
"""

import importlib
import os
import warnings
from types import ModuleType

import pytest


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
