"""A recorded decision in plain words: what, why, why not the others, what would change it.

Here: the back end of ``policy explain``; pure over the decision's JSON. Not here: printing.
"""

from collections.abc import Callable

from pydantic import JsonValue

from agentops.policy.hypotheses import TABLE, TITLES
from journal.events import DecisionMade, JsonObject


def explain(made: DecisionMade) -> tuple[str, ...]:
    """Lines for a person; every event that is named can be shown by its id."""
    body = made.decision
    return (
        f"decision {made.decision_id}, phase {body.get('phase')}",
        f"  {_action(body)}",
        *_list("because", _items(body, "because"), _because),
        *_hypotheses(body),
        *_list("rejected", _items(body, "rejected"), _rejected),
        *_list("guards", _items(body, "guards"), _guard),
        *_list("expects", _items(body, "expects"), _expects),
        *_flips(body),
    )


def _items(body: JsonObject, key: str) -> list[JsonObject]:
    listed = body.get(key)
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def _list(
    title: str, items: list[JsonObject], line: Callable[[JsonObject], str]
) -> tuple[str, ...]:
    if not items:
        return ()
    return (f"{title}:", *(f"  {line(item)}" for item in items))


def _action(body: JsonObject) -> str:
    action = body.get("action")
    if not isinstance(action, dict):
        return "no action"
    match action.get("kind"):
        case "run":
            return f"run {action.get('command')} ({action.get('purpose')}){_victim(action)}"
        case "judge":
            condition = action.get("condition")
            kind = condition.get("kind") if isinstance(condition, dict) else None
            return f"judge {kind}: {action.get('verdict')}; {action.get('reason')}"
        case "pause":
            return f"pause: {action.get('reason')}"
        case _:
            return f"close {action.get('resolution')}: {action.get('reason')}"


def _victim(action: JsonObject) -> str:
    arguments = action.get("arguments")
    if not isinstance(arguments, dict) or not isinstance(arguments.get("victim"), dict):
        return ""
    victim = arguments["victim"]
    pid = victim.get("pid") if isinstance(victim, dict) else None
    start = victim.get("start_ticks") if isinstance(victim, dict) else None
    return f": {arguments.get('signal')} to process {pid} started at tick {start}"


def _because(item: JsonObject) -> str:
    return f"{item.get('rule')}: {item.get('text')}{_events(item.get('events'))}"


def _events(listed: JsonValue) -> str:
    names = [str(name) for name in listed] if isinstance(listed, list) else []
    return f" [{', '.join(names)}]" if names else ""


def _rejected(item: JsonObject) -> str:
    return f"{item.get('candidate')}: {item.get('text')} ({item.get('rule')})"


def _guard(item: JsonObject) -> str:
    return f"{'passes' if item.get('passed') else 'FAILS '} {item.get('guard')}: {item.get('note')}"


def _expects(item: JsonObject) -> str:
    condition = item.get("condition")
    kind = condition.get("kind") if isinstance(condition, dict) else None
    return f"{kind} by {item.get('by_us')} us"


def _hypotheses(body: JsonObject) -> tuple[str, ...]:
    lines = []
    texts = {evidence.id: evidence.text for evidence in TABLE} | {"prior": "prior"}
    for score in _items(body, "hypotheses"):
        name = str(score.get("hypothesis"))
        title = next((title for key, title in TITLES.items() if key == name), "")
        lines.append(f"  {score.get('db'):>4} dB  {name} {title}")
        lines.extend(
            f"           {weight:+d} {texts.get(evidence, evidence)}"
            for evidence, weight in _parts(score)
        )
    return ("hypotheses:", *lines) if lines else ()


def _parts(score: JsonObject) -> list[tuple[str, int]]:
    """The evidence of one hypothesis with its weights."""
    listed = score.get("because")
    found: list[tuple[str, int]] = []
    for part in listed if isinstance(listed, list) else []:
        match part:
            case [str() as evidence, int() as weight]:
                found.append((evidence, weight))
            case _:
                pass
    return found


def _flips(body: JsonObject) -> tuple[str, ...]:
    """What evidence, had it been seen, would have spoken most against the leader."""
    scores = _items(body, "hypotheses")
    lead = body.get("lead")
    if not scores or not isinstance(lead, str) or not lead:
        return ()
    seen = {evidence for score in scores for evidence, _ in _parts(score)}
    against = [
        (weight, evidence.text)
        for evidence in TABLE
        for name, weight in evidence.weights.items()
        if name == lead and evidence.id not in seen and weight < 0
    ]
    worst = sorted(against)[:2]
    if not worst:
        return ()
    return ("would change it:", *(f"  {weight:+d} dB if {text}" for weight, text in worst))
