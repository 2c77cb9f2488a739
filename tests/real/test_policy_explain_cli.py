"""``policy explain`` takes a decision under every name that other commands show it under."""

from pathlib import Path

from journal import Reader
from tests.support.command_line import user

HERE = '\n[hosts.here]\ntransport = "local"\ntier = "dev"\n'
JOB = """
[job.zz]
role_match = { cmd_contains = "nothing-is-called-this" }
gpu = false
[job.zz.progress]
heartbeat = "/nonexistent/heartbeat.json"
"""


def test_a_decision_is_explained_by_each_id_that_is_shown(tmp_path: Path) -> None:
    """Its own id, its event's short id as accounts print it, its place; another event is named."""
    who = user(tmp_path)
    assert who.run("init").status == 0
    for name, text in (("agentops.toml", HERE), ("policy.toml", JOB)):
        with (who.folder / name).open("a") as file:
            file.write(text)
    who.run("recover", "zz", "--host", "here")
    events = list(Reader.open(who.folder / "ops.journal").events())
    made = [event for event in events if event.kind == "decision_made"]
    assert len(made) >= 2
    for event in made:
        wanted = who.run("policy", "explain", event.id, "--json").json
        for name in (event.id[-8:], event.place, str(wanted["decision_id"])):
            assert who.run("policy", "explain", name, "--json").json == wanted
        assert who.run("policy", "explain", event.id[-8:]).status == 0
    other = next(event for event in events if event.kind == "incident_opened")
    who.run("policy", "explain", other.id[-8:]).refused(2, "incident_opened, no decision")
    who.run("policy", "explain", "zzzzzzzz").refused(2, "no event", "agentops log")
