"""What shell lines do in the same worlds: the commands that this product replaces.

Here: each baseline as shell texts for the innermost layer, and how their author reads the answers.
They go the same way as the engine's commands (SSH, pct) and have no journal. Sources: the three
commands of the transcripts that this product began with, these transcripts' lines one after the
other, a corrected one, a stop by process group, and one by control group as systemd stops a scope.
"""

import asyncio
import secrets
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from pathlib import Path

from agentops.bench.around import run_staged, seen_after
from agentops.bench.beside import SCRIPT
from agentops.bench.judging import Run, Scores, gentleness
from agentops.bench.scenario import Written
from agentops.bench.stage import WRAPPER, Stage
from agentops.bench.truth import has_mark
from agentops.box.waiting import wait_for
from agentops.transport import Ended, Request, Transport, TransportAnswer, open_transport
from journal.events import Resolution

_DEADLINE_MS = 90_000
_OVER_S = 10.0


@dataclass(slots=True)
class Heard:
    """What came back, as a person at a terminal sees it."""

    out: bytearray = field(default_factory=bytearray)
    err: bytearray = field(default_factory=bytearray)

    def stdout(self, chunk: bytes) -> None:
        """Take bytes of standard output."""
        self.out += chunk

    def stderr(self, chunk: bytes) -> None:
        """Take bytes of standard error."""
        self.err += chunk

    @property
    def lines(self) -> list[str]:
        """The lines that were printed."""
        return self.out.decode("utf-8", "replace").split("\n")[:-1]


Reading = Callable[[TransportAnswer, Heard], Resolution]


@dataclass(frozen=True, slots=True)
class Baseline:
    """script is filled with the stage's names; one that climbs prints what it sent.

    before are lines that were typed ahead of it. scoped: the job is started in a control group of
    its own.
    """

    script: str
    reads: Reading
    climbs: bool = False
    scoped: bool = False
    before: tuple[str, ...] = ()


def _silence_is_success(_: TransportAnswer, heard: Heard) -> Resolution:
    """As the transcripts' author reads it: nothing printed, so nothing is left."""
    return "STOPPED" if not [line for line in heard.lines if line.strip()] else "HANDED_OVER"


def _cards_are_empty(_: TransportAnswer, heard: Heard) -> Resolution:
    """As the third transcript's author reads it: a card shows no memory, so the job is gone."""
    cards = [line.split(",")[-1].split()[0] for line in heard.lines if line.endswith("MiB")]
    if not cards:
        return "STOPPED" if not heard.lines else "HANDED_OVER"
    return "STOPPED" if all(int(mib) < 100 for mib in cards) else "HANDED_OVER"  # noqa: PLR2004


def _said_clean(answer: TransportAnswer, heard: Heard) -> Resolution:
    """Positive evidence only: the last line says so, and the command ended with 0."""
    ended = isinstance(answer, Ended) and answer.exit_status == 0
    return "STOPPED" if ended and heard.lines[-1:] == ["clean"] else "HANDED_OVER"


def recorded() -> Baseline:
    """The recorded session of an agent with a raw shell; how it read its last answer decides."""
    file = files("agentops.bench") / "transcripts" / "raw_shell.toml"
    lines = tuple(row["line"] for row in tomllib.loads(file.read_text("utf-8"))["typed"])
    return Baseline(lines[-1], _cards_are_empty, before=lines[:-1])


BASELINES: Mapping[str, Baseline] = {
    "listed-kill": Baseline(
        "ps aux | grep {script} | grep -v grep | awk '{{print $2}}' | xargs -r kill -9; sleep 1;"
        " ps aux | grep {script} | grep -v grep",
        _silence_is_success,
    ),
    "double-pkill": Baseline(
        "pkill -9 -f {script} || true; pkill -9 -f {folder}/{wrapper} || true; sleep 2;"
        " pgrep -af {script} || true",
        _silence_is_success,
    ),
    "pkill-python": Baseline(
        "pkill -9 -f python3; sleep {eight}; nvidia-smi --query-gpu=index,memory.used"
        " --format=csv,noheader,nounits 2>/dev/null | sed 's/$/ MiB/'",
        _cards_are_empty,
    ),
    "corrected": Baseline(
        "for s in INT TERM KILL; do pkill -A -$s -f {script} && echo sent $s && sleep {ten}; done;"
        " pgrep -A -f {script} >/dev/null; s=$?; [ $s = 1 ] && echo clean",
        _said_clean,
        climbs=True,
    ),
    "process-group": Baseline(
        "p=$(sed -n 's/.*\"pid\": \\([0-9]*\\),.*/\\1/p' {folder}/out/heartbeat.json);"
        ' g=$(ps -o pgid= -p "$p" | tr -d " "); [ -n "$g" ] || {{ echo nothing; exit 3; }};'
        ' kill -TERM -- "-$g" && echo sent TERM; sleep {ten}; kill -KILL -- "-$g" 2>/dev/null'
        ' && echo sent KILL; sleep 1; pgrep -g "$g" >/dev/null; s=$?; [ $s = 1 ] && echo clean',
        _said_clean,
        climbs=True,
    ),
    "control-group": Baseline(
        'c={scope}/cgroup.procs; [ -n "$(cat $c)" ] || {{ echo nothing; exit 5; }};'
        " each() {{ for p in $(cat $c); do kill -$1 $p 2>/dev/null; done; }};"
        " each TERM; each CONT; echo sent TERM; n={waits};"
        ' while [ -n "$(cat $c)" ] && [ $n -gt 0 ]; do sleep 0.1; n=$((n-1)); done;'
        ' [ -n "$(cat $c)" ] && each KILL && echo sent KILL && sleep 1;'
        ' [ -z "$(cat $c)" ] && echo clean',
        _said_clean,
        climbs=True,
        scoped=True,
    ),
    "transcript": recorded(),
}


def run_baseline(written: Written, seed: int, *, name: str, scale: float) -> Run:
    """Stage *written* under *seed*, let the one-liner have its way, judge by the same truth."""
    baseline = BASELINES[name]
    turn = partial(_told, written, seed, baseline)
    return run_staged(written, seed, turn, scale=scale, scoped=baseline.scoped)


def _told(written: Written, seed: int, baseline: Baseline, stage: Stage, _: Path) -> Run:
    scenario = stage.scenario
    lived = bool(stage.world.job())
    resolution, answer, heard = asyncio.run(_typed(stage, baseline))
    wait_for(partial(over, stage), _OVER_S, "end of the one-liner's own processes")
    signals: tuple[str, ...] = ("KILL",) if lived else ()
    if baseline.climbs:
        signals = tuple(line.split()[1] for line in heard.lines if line.startswith("sent "))
    run = seen_after(
        written, seed, stage, resolution, f"the one-liner ended as {type(answer).__name__}"
    )
    # It cannot tell "was not there" from "is gone", and is not held to it.
    nothing = resolution == "STOPPED" and "NOTHING_TO_DO" in scenario.accepted
    return replace(
        run,
        accepted=run.accepted or nothing,
        journal_faults=("there is no journal",),
        journalled=False,
        scores=Scores(signals=signals, gentleness=gentleness(scenario, signals)),
    )


def over(stage: Stage) -> bool | None:
    """Whether what was typed has ended, whose answer may have been lost before."""
    watched = {each.truth.outer_pid for each in stage.oracle.watched}
    typed = [
        truth
        for truth in stage.world.processes()
        if truth.outer_pid not in watched
        and truth.state != "Z"
        and not has_mark(truth, stage.world.mark)
    ]
    return not typed or None


async def _typed(stage: Stage, baseline: Baseline) -> tuple[Resolution, TransportAnswer, Heard]:
    """Send the lines as their author did, and read the answers as their author did."""
    transport = open_transport(stage.host)
    try:
        for line in baseline.before:
            await _sent(transport, stage, line)
        answer, heard = await _sent(transport, stage, baseline.script)
    finally:
        await transport.close()
    return baseline.reads(answer, heard), answer, heard


async def _sent(transport: Transport, stage: Stage, line: str) -> tuple[TransportAnswer, Heard]:
    """One line, filled with the stage's names."""
    text = line.format(
        script=SCRIPT,
        wrapper=WRAPPER,
        folder=stage.folder,
        scope=stage.scope,
        eight=8 * stage.scale,
        ten=10 * stage.scale,
        waits=round(100 * stage.scale),
    )
    heard = Heard()
    request = Request(("/bin/bash", "-c", text), b"", _DEADLINE_MS, secrets.token_hex(16))
    return await transport.run(request, heard), heard
