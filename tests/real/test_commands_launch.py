"""``launch`` in its three manners: each is seen by the kernel where it says it is."""

import os
import secrets
import subprocess
import sys
import tomllib
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from agentops.box import Box
from agentops.box.namespaces import Namespace
from agentops.box.waiting import wait_for
from agentops.commands.adopting import job_entry
from agentops.commands.base import Completed
from agentops.commands.inspecting import InspectProcess, ProcessInspected
from agentops.commands.launch import Launch, Launched
from agentops.commands.remote.launch import said_since
from agentops.commands.remote.launch_manners import scope_words
from agentops.commands.tmux import (
    InterruptSent,
    PaneCaptured,
    TmuxCapture,
    TmuxInterrupt,
    TmuxSeen,
    TmuxSessions,
)
from agentops.policy.config import Job
from agentops.transport import SshTransport
from tests.support.boxes import host_of, observe

pytestmark = pytest.mark.needs("sshd", "root-namespaces", "tmux")
TALKER = "import os, time; print(os.getcwd(), flush=True); time.sleep(300)"


@pytest.fixture
def terminals() -> Iterator[Box]:
    """A box whose sessions have a tmux of their own."""
    with Box(containers=(), environment={"TMUX_TMPDIR": "@box@", "SECRET_OF_HOST": "h"}) as opened:
        yield opened


@pytest.fixture
async def desk(terminals: Box) -> AsyncIterator[SshTransport]:
    """The way into it."""
    transport = SshTransport(host_of(terminals))
    yield transport
    await transport.close()


def job(box: Box, launch_id: str, *argv: str, cwd: Path | None = None, **more: object) -> Launch:
    said = {"argv": argv or ("sleep", "300"), "cwd": str(cwd or box.directory), "manner": "tmux"}
    log = str(box.directory / f"{launch_id}.log")
    return Launch.model_validate({**said, "log": log, "launch_id": launch_id, **more})


async def test_a_job_launched_in_tmux_is_the_panes_own_process(
    terminals: Box, desk: SshTransport
) -> None:
    wanted = job(
        terminals, "run:7.1", sys.executable, "-c", TALKER, env={"TOKEN": "not-for-all-to-see"}
    )
    launched = await observe(desk, wanted, Launched)
    assert launched.started, launched
    assert launched.identity is not None
    seen = await observe(desk, TmuxSessions(), TmuxSeen)
    (pane,) = seen.panes
    assert (pane.session, pane.pane_id) == ("agentops-run_7_1", launched.pane_id)
    assert pane.process == pane.foreground == launched.identity
    log = Path(wanted.log)
    wait_for(lambda: log.read_text() == f"{terminals.directory}\n" or None, 10, "the job's line")
    capture = TmuxCapture(pane_id=pane.pane_id)
    shown = await observe(desk, capture, PaneCaptured)
    assert "launch run:7.1 runs here" in " ".join(shown.lines)
    # A server keeps the argv of its first session for ever: neither job nor secret is in there.
    said = [" ".join(truth.cmdline) for truth in terminals.processes()]
    server = next(words for words in said if "new-session" in words)
    assert "getcwd" not in server
    assert not [words for words in said if "not-for-all-to-see" in words]


async def test_a_job_that_lives_in_tmux_is_adopted_as_one(
    terminals: Box, desk: SshTransport
) -> None:
    launched = await observe(desk, job(terminals, "one"), Launched)
    assert launched.identity is not None
    looked = InspectProcess(pid=launched.identity.pid)
    entry = job_entry("x", await observe(desk, looked, ProcessInspected))
    adopted = Job.model_validate(tomllib.loads(entry)["job"]["x"])
    assert adopted.launch is not None
    assert adopted.launch.manner == "tmux"


async def test_an_interrupt_reaches_the_job_that_was_launched_in_tmux(
    terminals: Box, desk: SshTransport
) -> None:
    launched = await observe(desk, job(terminals, "one"), Launched)
    assert launched.identity is not None
    assert launched.pane_id is not None
    stop = TmuxInterrupt(pane_id=launched.pane_id, foreground=launched.identity)
    assert (await observe(desk, stop, InterruptSent)).sent
    pid = launched.identity.pid

    def gone() -> bool | None:
        return pid not in {truth.identity.pid for truth in terminals.processes()} or None

    wait_for(gone, 10, "the job's end")


async def test_a_job_in_tmux_is_started_once_by_id_and_by_log(
    terminals: Box, desk: SshTransport
) -> None:
    first = await observe(desk, job(terminals, "one"), Launched)
    assert first.started
    again = await observe(desk, job(terminals, "one"), Launched)
    assert (again.refusal, again.identity) == ("already_running", first.identity)
    other = job(terminals, "two", log=str(terminals.directory / "one.log"), manner="setsid")
    assert (await observe(desk, other, Launched)).refusal == "log_in_use"


async def test_what_cannot_start_in_tmux_is_told_and_leaves_no_session(
    terminals: Box, desk: SshTransport
) -> None:
    nothing = await observe(desk, job(terminals, "a", "/nope/train"), Launched)
    assert (nothing.refusal, nothing.detail) == (
        "cannot_start",
        "/nope/train: No such file or directory",
    )
    nowhere = await observe(desk, job(terminals, "b", cwd=Path("/nope")), Launched)
    assert (nowhere.refusal, nowhere.detail) == ("cannot_start", "/nope: No such file or directory")
    assert (await observe(desk, TmuxSessions(), TmuxSeen)).panes == ()


def test_the_last_words_are_those_since_the_start_and_no_older_ones(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"old failure\n")
    offset = log.stat().st_size
    assert said_since(str(log), offset) == ""
    with log.open("ab") as more:
        more.write(b"x" * 500 + b"no such data \xff\n")
    assert said_since(str(log), offset).endswith("no such data \udcff")
    assert len(said_since(str(log), offset)) < 400


async def test_where_no_systemd_runs_a_scope_is_refused_and_nothing_started(
    terminals: Box, desk: SshTransport
) -> None:
    refused = await observe(desk, job(terminals, "one", manner="systemd_scope"), Launched)
    assert (refused.started, refused.refusal) == (False, "no_systemd")
    assert refused.detail == "this place was not started by systemd"
    assert not [t for t in terminals.processes() if t.cmdline == ("sleep", "300")]


def test_a_scope_is_asked_for_by_name_and_collected_after_its_end() -> None:
    assert scope_words("agentops-a.scope", user=False) == (
        "systemd-run", "--scope", "--quiet", "--collect", "--unit=agentops-a.scope", "--",
    )  # fmt: skip
    assert scope_words("u", user=True)[1] == "--user"


# A real manager of systemd, in namespaces and control groups of its own.
MANAGER = r"""
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/u "$1/units" "$1/linger" /var/lib/systemd/linger
for unit in default basic shutdown exit; do
  printf '[Unit]\nDescription=%s\n' $unit >"$1/units/$unit.target"
done
mount --bind "$1/linger" /var/lib/systemd/linger
for group in $2; do
  mkdir "$group"
  echo $$ >"$group/cgroup.procs"
done
export XDG_RUNTIME_DIR=/run/u SYSTEMD_UNIT_PATH="$1/units" HOME="$1"
for systemd in /usr/lib/systemd/systemd /lib/systemd/systemd; do
  [ ! -x $systemd ] || exec $systemd --user --log-target=null
done
"""


@contextmanager
def manager(folder: Path) -> Iterator[Namespace]:
    """The user manager of systemd as the first thing in a place of its own."""
    top = Path("/sys/fs/cgroup")
    name = f"agentops-test-{secrets.token_hex(4)}"
    kinds = [top / kind for kind in ("systemd", "unified") if (top / kind).is_dir()] or [top]
    groups = [kind / name for kind in kinds]
    argv = ("sh", "-c", MANAGER, "manager", str(folder), " ".join(map(str, groups)))
    place = Namespace("root", argv, stderr=folder / "manager.log")
    try:
        yield place
    finally:
        place.close()
        for group in groups:
            for path, _, _ in os.walk(group, topdown=False):
                wait_for(partial(removed, Path(path)), 10, f"the end of {path}")


def removed(group: Path) -> bool | None:
    try:
        group.rmdir()
    except OSError:
        return None if group.exists() else True
    return True


def launched_at(place: Namespace, wanted: Launch) -> Launched:
    """The launch, run where the manager is."""
    ran = subprocess.run(
        [*place.enter_argv(), *wanted.argv()], stdin=subprocess.DEVNULL, capture_output=True,
        env={"PATH": os.environ["PATH"], "XDG_RUNTIME_DIR": "/run/u"}, check=False,
    )  # fmt: skip
    seen = wanted.parse(Completed(ran.returncode, ran.stdout, ran.stderr))
    assert isinstance(seen, Launched), seen
    return seen


@pytest.mark.needs("systemd-run", "root-control-groups")
def test_a_job_launched_in_a_scope_is_held_by_systemd_itself(tmp_path: Path) -> None:
    said = {"argv": ("sleep", "300"), "cwd": "/", "manner": "systemd_scope"}
    wanted = Launch.model_validate(
        {**said, "log": str(tmp_path / "job.log"), "launch_id": "run:7.1"}
    )
    with manager(tmp_path) as place:
        ask = [*place.enter_argv(), "test", "-S", "/run/u/systemd/private"]
        wait_for(lambda: subprocess.run(ask, check=False).returncode == 0 or None, 20, "systemd")
        refused = launched_at(place, wanted)
        assert refused.refusal == "no_systemd"
        assert "ends with the last login: loginctl enable-linger" in refused.detail
        (tmp_path / "linger" / Path.home().owner()).touch()
        launched = launched_at(place, wanted)
        assert launched.started, launched
        assert launched.unit == "agentops-run:7.1.scope"
        assert launched.identity is not None
        pid = launched.identity.pid
        where = subprocess.run(
            [*place.enter_argv(), "cat", f"/proc/{pid}/cgroup", f"/proc/{pid}/cmdline"],
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        assert "/agentops-run:7.1.scope\n" in where
        assert where.endswith("sleep\x00300\x00")
        assert launched_at(place, wanted).refusal == "already_running"
