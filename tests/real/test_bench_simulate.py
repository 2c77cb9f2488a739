"""Loop, executor and journal as they are, in simulated worlds with faults at every step."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import pytest

from agentops.bench.drawing import draw_world
from agentops.bench.faults import Controller, FaultyDisk, Odds, SimulatedHost, WorldClock
from agentops.bench.seeds import SeedTally, run_seeds
from agentops.bench.simulate import Simulated
from agentops.bench.whole import simulate_whole
from agentops.bench.world import SECOND_US, World
from agentops.cli.main import main
from agentops.commands.base import Completed
from agentops.commands.processes import ListProcesses, ProcessTable
from agentops.commands.signals import SignalProcess
from agentops.policy import PolicyConfig, parse_policy
from agentops.transport import Ended, Request
from journal.disk import AppendFile
from journal.events import Identity
from tests.support.boxes import Kept
from tests.support.simulated import SHIPPED, config

SEEDS = range(18)


@cache
def first_runs() -> tuple[Simulated, ...]:
    """The first seeds, run once for all who look at them."""
    return tuple(simulate_whole(seed, config()) for seed in SEEDS)


def test_no_seed_breaks_a_gate_and_the_troubles_come_about() -> None:
    """Controllers die, disks run full, and nothing is hurt, doubled, lost or claimed for it."""
    runs = first_runs()
    assert [(run.seed, run.findings) for run in runs if run.findings] == []
    assert sum(run.deaths for run in runs) > 3
    assert sum(run.full_disks for run in runs) > 0
    assert len({run.resolution for run in runs}) == 4


def test_a_seed_runs_the_same_way_again() -> None:
    """A red one is seen again by its number alone, deaths included."""
    died = next(run for run in first_runs() if run.deaths)
    assert simulate_whole(died.seed, config()) == died
    assert replace(first_runs()[1], seed=2) != first_runs()[2]


@pytest.mark.parametrize("seed", [138, 199, 331, 538, 942, 1439, 2792, 86694])
def test_a_seed_that_was_red_once_stays_green(seed: int) -> None:
    """Force without a question, a lost TERM, a clock set back, an answer cut by a death."""
    assert simulate_whole(seed, config()).findings == ()


@pytest.mark.parametrize(("seed", "step"), [(8, 166), (19, 481), (87, 512), (117, 191)])
def test_a_death_that_was_red_once_stays_green(seed: int, step: int) -> None:
    """Between a verdict and what it settles, the journal waited for ever and let no act pass."""
    assert simulate_whole(seed, config(), dies_at=step).findings == ()


def impatient() -> PolicyConfig:
    """Rules under which a rung may follow the one before at once."""
    job = config().job["job"]
    grace = job.stop.grace.model_copy(update={"interrupt_s": 0, "terminate_s": 0})
    stop = job.stop.model_copy(update={"grace": grace})
    return config().model_copy(update={"job": {"job": job.model_copy(update={"stop": stop})}})


def test_the_oracle_sees_a_grace_that_was_cut_short() -> None:
    """By the world's own time, whatever the controller's clocks say."""
    runs = [simulate_whole(seed, impatient()) for seed in range(6)]
    found = [text for run in runs for text in run.findings]
    assert any("after the signal before it" in text for text in found)


def host_of(world: World, *, die: float = 0.0) -> SimulatedHost:
    """A line that holds, and a controller that dies as often as is said."""
    odds = Odds(die=die, full=0, jump=0, garble=0, meddling="none", meddling_at=0)
    random = Random(3)  # noqa: S311 - repeatable on purpose
    controller = Controller(random, odds)
    disk = FaultyDisk(controller, random, random)
    return SimulatedHost(world, controller, disk, WorldClock(world), random, 0.0, 1)


def request_for(command: ListProcesses | SignalProcess) -> Request:
    """As the executor would send it."""
    return Request(command.argv(), command.stdin(), 1_000, "n")


async def test_a_request_before_its_intent_is_durable_is_noticed() -> None:
    """Each request needs one more durable intent."""
    world = World()
    draw_world(Random(5), world)  # noqa: S311
    host = host_of(world)
    host.disk.intents = 1
    await host.run(request_for(ListProcesses()), Kept())
    assert host.unannounced == 0
    await host.run(request_for(ListProcesses()), Kept())
    assert host.unannounced == 1


async def test_the_commands_own_parsers_read_what_a_simulated_host_says() -> None:
    """Whole rows with masks, and the end line; a look's own process is in none of them."""
    world = World()
    draw_world(Random(5), world)  # noqa: S311
    sink = Kept()
    answer = await host_of(world).run(request_for(ListProcesses()), sink)
    assert isinstance(answer, Ended)
    seen = ListProcesses().parse(completed(sink))
    assert isinstance(seen, ProcessTable)
    assert seen.complete
    assert {row.pid for row in seen.processes} == {1, *world.processes}
    trainer = world.trainer
    assert trainer is not None
    row = next(row for row in seen.processes if row.pid == trainer.process.pid)
    assert 10 in row.signals_caught
    assert row.cmdline == trainer.process.cmdline


def completed(sink: Kept) -> Completed:
    """What a parser is given."""
    return Completed(0, bytes(sink.out), b"")


@pytest.mark.parametrize("boot", [False, True])
async def test_after_a_restart_the_old_identity_is_refused(boot: bool) -> None:  # noqa: FBT001
    """Though pid and start ticks may come again, namespace and boot do not."""
    world = World()
    draw_world(Random(5), world)  # noqa: S311
    trainer = world.trainer
    assert trainer is not None
    victim: Identity = world.identity(trainer.process)
    world.pass_time(SECOND_US)
    world.restart(boot=boot)
    newcomer = world.spawn("innocent", "innocent", ("x",))
    del world.processes[newcomer.pid]
    newcomer.pid, newcomer.start_ticks = victim.pid, victim.start_ticks
    world.processes[newcomer.pid] = newcomer
    sink = Kept()
    command = SignalProcess(victim=victim, signal="INT")
    await host_of(world).run(request_for(command), sink)
    assert b'"refusal":"identity_changed"' in sink.out
    assert world.hurt == []


def disk_of(folder: Path, *, lays_out: bool) -> tuple[FaultyDisk, AppendFile]:
    """A disk that never fails by itself, and a file on it."""
    disk = host_of(World()).disk
    disk.lays_out = lays_out
    return disk, AppendFile(folder / "000000.jsonl", disk)


@pytest.mark.parametrize("lays_out", [False, True])
def test_a_power_cut_takes_what_was_not_synced_and_nothing_else(
    tmp_path: Path,
    lays_out: bool,  # noqa: FBT001
) -> None:
    """Over some cuts something is lost each way, and never a byte of what was acknowledged."""
    found = set()
    for turn in range(20):
        (folder := tmp_path / str(turn)).mkdir()
        disk, file = disk_of(folder, lays_out=lays_out)
        file.write(b"a" * 700)
        file.wait_durable(700)
        file.write(b"b" * 3_000)
        file.close()
        disk.random.seed(turn)
        disk.power_cut()
        left = file.path.read_bytes()
        assert left[:700] == b"a" * 700
        assert (b"a" in left[700:], b"b" in left[3_700:]) == (False, False)
        kept = left[700:].rstrip(b"\x00")
        found.add("whole" if kept == b"b" * 3_000 else "hole" if b"\x00" in kept else "end lost")
    assert found >= ({"whole", "hole"} if lays_out else {"whole", "end lost"})


def test_a_controller_that_died_leaves_its_files_laid_out(tmp_path: Path) -> None:
    """What closing would have cut off is there for the next opener."""
    disk, file = disk_of(tmp_path, lays_out=True)
    file.write(b"a" * 700)
    file.wait_durable(700)
    laid = file.path.stat().st_size
    file.close()
    assert file.path.stat().st_size == 700
    disk.power_cut()
    assert file.path.stat().st_size == laid > 700


def test_the_counts_are_the_same_however_many_processes_there_are() -> None:
    """In order, too."""
    rules = parse_policy(SHIPPED.read_text(encoding="utf-8"), SHIPPED.name)
    told = []
    for processes in (1, 2):
        tally = SeedTally()
        runs = list(run_seeds(rules, range(60, 120), side_by_side=processes, alone=True))
        for run in runs:
            tally.add(run)
        told.append(([run.seed for run in runs], tally.json()))
    assert told[0] == told[1]
    assert told[0][0] == list(range(60, 120))


def test_faults_are_counted_by_the_step_that_they_strike() -> None:
    """Deaths and full disks agree with what is counted one by one."""
    tally = SeedTally()
    for run in first_runs():
        tally.add(run)
    faults = tally.faults()
    assert sum(count for fault, count in faults.items() if "died" in fault) == tally.deaths
    assert faults["disk full"] >= tally.full_disks
    assert sum(sum(by.values()) for by in tally.faults_by_step().values()) == sum(faults.values())
    assert {"decision_made", "command_intended", "list_processes"} <= set(tally.faults_by_step())


def test_somebody_out_of_sight_starts_the_job_again_as_often_as_was_drawn() -> None:
    """One listing too early would call the job gone."""
    world = World()
    first = world.spawn("trainer", "plain", ("python3",), launch_id="launch-0")
    world.train(first)
    world.unseen_starts, world.respawn_us = 1, 2 * SECOND_US
    world.signal(first, "TERM")
    world.pass_time(SECOND_US)
    assert world.job() == ()
    world.pass_time(2 * SECOND_US)
    (again,) = world.job()
    assert (again.ppid, again.launch_id, again.pid == first.pid) == (1, None, False)
    world.signal(again, "TERM")
    world.pass_time(5 * SECOND_US)
    assert world.job() == ()


def test_a_controller_dies_at_the_step_that_is_asked_for_and_nowhere_else() -> None:
    """Up to there the run is the one that no death cuts, so every step can be asked for in turn."""
    whole = simulate_whole(9, config(), dies_at=0)
    assert (whole.deaths, whole.findings) == (0, ())
    for step in range(1, whole.steps + 1, 23):
        run = simulate_whole(9, config(), dies_at=step)
        assert (run.deaths, run.findings) == (1, ())
        assert run.steps > step
    assert simulate_whole(9, config(), dies_at=whole.steps + 1).deaths == 0


def test_a_death_is_asked_for_with_one_whole_seed_only(capsys: pytest.CaptureFixture[str]) -> None:
    """The line that a red one is told with runs it again."""
    assert main(["bench", "simulate", "--dies-at", "3"]) == 2
    assert main(["bench", "simulate", "--seed", "9", "--alone", "--dies-at", "3"]) == 2
    assert "--dies-at goes with --seed" in capsys.readouterr().err
    assert main(["bench", "simulate", "--seed", "9", "--dies-at", "20", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["controller_deaths"] == 1
