"""The next rung for one process: the gentlest that fits the evidence.

Here: the ladder of one victim, from the first interrupt to the last resort. Not here: which process
comes first (``agentops.policy.stopping``), nor whether the act is allowed
(``agentops.policy.guards``).

Each rung is left only when its grace is over *and* the victim was seen alive after that. What comes
next depends on what explains the survival:

    graceful stop running        wait
    interrupt not delivered      interrupt
    threads go on                interrupt again (the first was taken)
    ignored, or blocked          terminate
    uninterruptible              nothing helps; hand over
    no leader                    look, then the gentlest rung that is right under all live ones
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from agentops.policy import moves
from agentops.policy.config import HypothesisName, Rung
from agentops.policy.decision import Close, Expectation, Pause, Rejected, RuleHit, Step
from agentops.policy.hypotheses import TITLES, Interrupted, Score, leader, live, weigh
from agentops.policy.learned import Patience
from agentops.policy.ledger import WITHOUT_FORCE, Act, deployed_paths
from agentops.policy.probing import next_probe
from agentops.policy.process import INTERRUPT_BIT, Process
from agentops.policy.roles import is_shell
from agentops.policy.view import SECOND_US, View
from journal.events import Identity

STUCK_US = 10 * SECOND_US
LOOK_AGAIN_US = 2 * SECOND_US
SIGNAL_OF: Mapping[str, str] = MappingProxyType(
    {"interrupt": "INT", "interrupt_again": "INT", "terminate": "TERM", "kill": "KILL"}
)
ORDER: tuple[Rung, ...] = ("request", "interrupt", "interrupt_again", "terminate", "kill")
Move = Literal["wait", "interrupt", "interrupt_again", "terminate", "hand_over"]
# Per hypothesis all moves that are right, gentlest first.
RIGHT: Mapping[HypothesisName, tuple[Move, ...]] = MappingProxyType(
    {
        "H1": ("interrupt", "terminate"),
        "H2": ("wait",),
        "H3": ("interrupt_again", "terminate"),
        "H4": ("terminate",),
        "H5": ("terminate",),
        "H6": ("hand_over",),
        "H7": ("terminate",),
    }
)
GENTLEST: tuple[Move, ...] = ("wait", "interrupt", "interrupt_again", "terminate", "hand_over")
INTERRUPTS_MAX = 2
REFUSALS_MAX = 2


def climb(view: View, process: Process, victim: Identity) -> Step:
    """What to do next about *victim*, whose newest row is *process*."""
    held = _held(view, process)
    if held is not None:
        return held
    refused = [a for a in view.signals if victim in a.victims and a.delivered == "no"]
    if len(refused) >= REFUSALS_MAX:
        last = refused[-1]
        reason = f"the host refused to signal process {process.pid}: {last.refusal}"
        hit = RuleHit("G1", "the host's own check refused twice", last.events)
        return Step(Close("HANDED_OVER", reason, last.events), (hit,))
    acts = view.signals_to(victim)
    climbing = tuple(act for act in acts if act.signal not in WITHOUT_FORCE)
    if process.state in {"T", "t"} and not any(act.signal == "CONT" for act in acts):
        hit = RuleHit("continue-stopped", "it is stopped and could not answer", view.listed)
        return Step(moves.signal(victim, "CONT"), (hit,), rung="interrupt")
    if not climbing:
        return _requested(view, process, victim) or _first(view, process, victim)
    return _after(view, process, victim, climbing[-1])


def grace_us(view: View, rung: str) -> int:
    """How long *rung* may take, in microseconds: the configured floor, or longer by history."""
    return _patience(view, rung).seconds * SECOND_US


def _patience(view: View, rung: str) -> Patience:
    grace = view.job.stop.grace
    floor_s = {
        "request": grace.request_s,
        "interrupt": grace.interrupt_s,
        "interrupt_again": grace.interrupt_s,
        "terminate": grace.terminate_s,
        "kill": grace.kill_s,
    }[rung]
    terms = view.state.terms
    return Patience(terms.learned_grace_s, terms.learned_grace_of).at_least(floor_s)


def _not_over(view: View, rung: str, act: Act) -> RuleHit:
    """The rule that waits out a grace, with what history added to it."""
    text = f"the grace of rung {rung} is not over{_patience(view, rung).told}"
    return RuleHit("G3", text, act.events)


def rung_of(view: View, act: Act) -> Rung:
    """The rung that *act* was taken on."""
    if act.signal == "KILL":
        return "kill"
    if act.signal != "INT":
        return "terminate"
    made = next((d for d in view.state.decisions if d.decision_id == act.decision_id), None)
    return "interrupt_again" if made is not None and made.rung == "interrupt_again" else "interrupt"


def _held(view: View, process: Process) -> Step | None:
    """Uninterruptible sleep: no signal is sent, and a long one is a person's matter."""
    if process.state != "D":
        return None
    if view.stuck_us(process) >= STUCK_US:
        hit = RuleHit("G10", "uninterruptible: no signal helps", view.listed)
        close = Close(
            "HANDED_OVER",
            f"process {process.pid} is in uninterruptible sleep; no signal can end it",
            view.listed,
        )
        return Step(close, (hit,), lead="H6")
    hit = RuleHit("G10", "uninterruptible for the moment", view.listed)
    if view.now_us - view.listed_at_us < LOOK_AGAIN_US:
        until = view.now_us + LOOK_AGAIN_US
        return Step(Pause(until, "short uninterruptible sleep is common"), (hit,))
    return Step(moves.list_processes(), (hit,))


def _requested(view: View, process: Process, victim: Identity) -> Step | None:
    """The stop file, for a job that watches one; None when it had its time, or there is none."""
    path = view.job.stop.request_file
    asks = "request" in view.job.stop.rungs and process in view.roles.trainers
    if path is None or not asks:
        return None
    sent = (act for act in view.state.acts if act.status != "not_sent")
    asked = [act for act in sent if path in deployed_paths(act)]
    if not asked:
        expected = Expectation(
            {"kind": "process_absent", "identities": [moves.identity(victim)]},
            view.now_us + grace_us(view, "request"),
        )
        hit = RuleHit("ladder", "the job watches a stop file", view.listed)
        return Step(moves.request_stop(view), (hit,), rung="request", expects=(expected,))
    act = asked[-1]
    hit = _not_over(view, "request", act)
    over_at = act.done_us + grace_us(view, "request")
    if view.now_us < over_at:
        step = moves.wait_absent((victim,), over_at - view.now_us)
        return Step(step, (hit,), rung="request")
    if view.listed_at_us < over_at:
        return Step(moves.list_processes(), (hit,), rung="request")
    return None


def _first(view: View, process: Process, victim: Identity) -> Step:
    rungs = [rung for rung in ORDER if rung in view.job.stop.rungs and rung != "request"]
    ignored = INTERRUPT_BIT in process.signals_ignored
    shell = process in view.roles.supervisors and is_shell(process)
    passed: list[Rejected] = []
    for rung in rungs:
        if rung == "interrupt_again":
            passed.append(Rejected(rung, "ladder", "no interrupt was taken yet"))
        elif rung == "interrupt" and shell:
            passed.append(
                Rejected(rung, "supervisor", "a shell that waits holds an interrupt back")
            )
        elif rung == "interrupt" and ignored:
            passed.append(Rejected(rung, "H4", "SIGINT is ignored; it would be lost"))
        else:
            scores = weigh(Interrupted(view, process, None))
            text = "the gentlest rung that can work"
            return _signal(
                view,
                victim,
                rung,
                RuleHit("ladder", text, view.listed),
                scores,
                passed,
                lead="H4" if ignored else "",
            )
    return _exhausted(view, process)


def _after(view: View, process: Process, victim: Identity, act: Act) -> Step:
    """The victim lives on after *act*: wait out the grace, look, weigh, choose."""
    rung = rung_of(view, act)
    over_at = act.done_us + grace_us(view, rung)
    if view.now_us < over_at:
        step = moves.wait_absent((victim,), over_at - view.now_us)
        return Step(step, (_not_over(view, rung, act),), rung=rung)
    if view.listed_at_us < over_at:
        hit = RuleHit("G3", "did it live on when its grace was over?", act.events)
        return Step(moves.list_processes(), (hit,), rung=rung)
    about = Interrupted(view, process, act)
    scores = weigh(about)
    lead_db = view.config.limits.lead_db
    since = max(act.last_order, view.waited_order("process_absent"))
    look = next_probe(view, live(scores, lead_db), since)
    if look is not None:
        hit = RuleHit("ladder", "why does it live on?", act.events)
        return Step(look[0], (hit,), hypotheses=scores, rejected=look[1])
    return _choose(view, process, victim, act, scores)


def _choose(
    view: View, process: Process, victim: Identity, act: Act, scores: tuple[Score, ...]
) -> Step:
    lead_db = view.config.limits.lead_db
    lead = leader(scores, lead_db)
    # Where one leads, it is the only one that is live.
    move = _shared(live(scores, lead_db))
    text = TITLES[lead] if lead is not None else "right under every live hypothesis"
    hit = RuleHit(lead or "dominance", text, (*act.events, *view.listed))
    if move == "hand_over":
        close = Close("HANDED_OVER", f"process {process.pid}: {text}", view.listed)
        return Step(close, (hit,), lead=lead or "", hypotheses=scores)
    if move == "wait" or (move is None and rung_of(view, act) != "kill"):
        return _patient(view, process, victim, act, scores, hit, lead or "")
    return _next(view, process, victim, act, scores, hit, lead or "", move)


def _shared(names: tuple[HypothesisName, ...]) -> Move | None:
    """The gentlest move that is right under all of *names*."""
    for move in GENTLEST:
        if all(move in RIGHT[name] for name in names):
            return move
    return None


def _patient(
    view: View,
    process: Process,
    victim: Identity,
    act: Act,
    scores: tuple[Score, ...],
    hit: RuleHit,
    lead: str,
) -> Step:
    """Give a graceful stop its time; after that a person decides."""
    longest = act.done_us + view.job.stop.grace.graceful_max_s * SECOND_US
    if view.now_us < longest:
        slice_us = min(longest - view.now_us, max(SECOND_US, grace_us(view, rung_of(view, act))))
        step = moves.wait_absent((victim,), slice_us)
        return Step(step, (hit,), rung=rung_of(view, act), lead=lead, hypotheses=scores)
    close = Close(
        "HANDED_OVER",
        f"process {process.pid} neither stops nor shows why within the longest graceful stop",
        (*view.listed, *act.events),
    )
    return Step(close, (hit,), lead=lead, hypotheses=scores)


def _next(
    view: View,
    process: Process,
    victim: Identity,
    act: Act,
    scores: tuple[Score, ...],
    hit: RuleHit,
    lead: str,
    move: Move | None,
) -> Step:
    """The next rung above the one taken, as *move* says where the ladder leaves a choice."""
    taken = rung_of(view, act)
    sent = sum(1 for sent in view.signals_to(victim) if sent.signal == "INT")
    passed: list[Rejected] = []
    for rung in ORDER:
        if rung not in view.job.stop.rungs or rung == "request":
            continue
        repeat = rung == "interrupt" and move == "interrupt" and sent < INTERRUPTS_MAX
        if ORDER.index(rung) <= ORDER.index(taken) and not repeat:
            passed.append(Rejected(rung, "ladder", "already taken, and it lives on"))
        elif rung == "interrupt_again" and move != "interrupt_again":
            passed.append(Rejected(rung, "ladder", "no evidence that the first was taken"))
        elif rung == "kill" and not heard(view.signals_to(victim)):
            passed.append(Rejected(rung, "ladder", "nothing shows that a gentler one arrived"))
            return _signal(view, victim, taken, hit, scores, passed, lead=lead)
        else:
            return _signal(view, victim, rung, hit, scores, passed, lead=lead)
    return _exhausted(view, process)


def heard(sent: tuple[Act, ...]) -> bool:
    """Whether a signal that asks to end surely arrived.

    That several may have arrived is no proof: a controller that dies before it sends leaves the
    same trace as one that dies after.
    """
    return any(act.delivered == "yes" for act in sent if act.signal not in WITHOUT_FORCE)


def _signal(
    view: View,
    victim: Identity,
    rung: Rung,
    hit: RuleHit,
    scores: tuple[Score, ...],
    passed: list[Rejected],
    *,
    lead: str,
) -> Step:
    above = [name for name in ORDER[ORDER.index(rung) + 1 :] if name in view.job.stop.rungs]
    rejected = (
        *passed,
        *(Rejected(name, "gentleness", "a gentler rung is left") for name in above),
    )
    expected = Expectation(
        {"kind": "process_absent", "identities": [moves.identity(victim)]},
        view.now_us + grace_us(view, rung),
    )
    return Step(
        moves.signal(victim, SIGNAL_OF[rung]),
        (hit,),
        rung=rung,
        lead=lead,
        hypotheses=scores,
        rejected=tuple(rejected),
        expects=(expected,),
    )


def _exhausted(view: View, process: Process) -> Step:
    close = Close(
        "HANDED_OVER",
        f"process {process.pid} lives on after every rung of its ladder",
        view.listed,
    )
    return Step(close, (RuleHit("ladder", "no rung is left", view.listed),))
