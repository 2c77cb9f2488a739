"""What tests may need from the machine, and the fixtures that all of them share.

``@pytest.mark.needs("sshd", "root")`` names system programs or privileges. On a user's machine a
test whose need is missing is skipped, and the skip names it; under CI=true it fails.
"""

import importlib.util
import os
import shutil
import signal
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from agentops.box.namespaces import isolation

_SYSTEM_PATH = "/usr/sbin:/usr/local/sbin:/sbin:"
_PACKAGE = "python-package:"
_SPECIAL: Mapping[str, Callable[[], bool]] = {
    "root": lambda: os.geteuid() == 0,
    "namespaces": lambda: isolation() != "none",
    "root-namespaces": lambda: isolation() == "root",
    "root-control-groups": lambda: os.geteuid() == 0 and os.access("/sys/fs/cgroup", os.W_OK),
    "checkout-open-to-other-users": lambda: all(
        place.stat().st_mode & stat.S_IXOTH for place in Path(__file__).resolve().parents
    ),
    "loop-devices": lambda: os.geteuid() == 0 and os.path.exists("/dev/loop-control"),  # noqa: PTH110
}

# A shell that starts us in its background lets us, and all that we start, ignore the interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A loaded machine is slow, which proves nothing about the code under test.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")

# The long loops are collected by `make torture` alone.
collect_ignore_glob = [] if os.environ.get("AGENTOPS_TORTURE") else ["torture/*"]

pytest_plugins = ("tests.support.boxes",)

# Files that take more than a quarter of a minute, the longest first. Whoever gets one of these last
# would leave the other workers idle; any other order is as good.
LONGEST_FIRST = (
    "test_demo_main_job.py",
    "test_watch_cli.py",
    "test_learn_language.py",
    "test_notebook_speculates.py",
    "test_train_process.py",
    "test_approvals_cli.py",
    "test_pipeline_runs.py",
    "test_lint_corpus.py",
    "test_bench_stop.py",
    "test_lint_claims.py",
    "test_journal_tamper.py",
    "test_recover_faults.py",
    "test_crash_moments.py",
    "test_reports_incident.py",
    "test_journal_crash.py",
    "test_cli_commands.py",
    "test_cli_errors.py",
    "test_cli_evidence.py",
    "test_pages_sessions.py",
    "test_lint_held_out.py",
    "test_kernels_interpreted.py",
    "test_cli_recover.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that take longest first; the order within a file stays."""
    rank = {name: place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


def missing(needs: tuple[str, ...]) -> tuple[str, ...]:
    """Those needs that this machine does not have."""
    return tuple(need for need in needs if not _has(need))


def _has(need: str) -> bool:
    if need in _SPECIAL:
        return _SPECIAL[need]()
    if need.startswith(_PACKAGE):
        return importlib.util.find_spec(need.removeprefix(_PACKAGE)) is not None
    path = _SYSTEM_PATH + os.environ.get("PATH", "")
    return shutil.which(need, path=path) is not None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip, or under CI fail, a test whose needs are not met."""
    needs = tuple(need for marker in item.iter_markers("needs") for need in marker.args)
    lacking = ", ".join(missing(needs))
    if not lacking:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"this machine lacks what the test needs: {lacking}", pytrace=False)
    pytest.skip(f"needs {lacking}")
