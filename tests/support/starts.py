"""Starts of a job that was gone, in told incidents.

Here: the way there, and the process that was started. Not here: the telling itself
(``tests.support.telling``).
"""

from dataclasses import replace

from pydantic import JsonValue

from agentops.policy import Close, Decision, Judge, PolicyConfig
from tests.support.shown import Host, beat, young
from tests.support.telling import Incident


def reason(decision: Decision) -> str:
    """The words of a verdict or a close, which are also those of its rule."""
    action = decision.action
    assert isinstance(action, Judge | Close)
    assert decision.because[0].text == action.reason
    assert decision.because[0].events == action.evidence
    return action.reason


def gone(
    *, config: PolicyConfig | None = None, log: tuple[str, ...] = (), state: str = "training"
) -> Incident:
    """A job that is not there, proven to be stopped, and about to be started."""
    incident = Incident(
        Host(beat=beat(70, 10, state=state), log=log), goal="recover", config=config
    )
    incident.until("judge job_stopped")
    incident.judged()
    incident.steps.clear()
    return incident


class Start:
    """A start of the job that was just carried out, and its process."""

    def __init__(self, incident: Incident) -> None:
        incident.until("launch")
        incident.done()
        incident.steps.clear()
        self.incident = incident
        self.act = incident.state.acts[-1]
        self.launch_id = str(self.act.arguments["launch_id"])
        self.process, self.says = young(90, incident.now_us, launch_id=self.launch_id)
        self.shows(0, state="starting", loss=None)

    def shows(self, step: int, **more: JsonValue) -> None:
        """The process lives, and its heartbeat says so much."""
        said = self.says | {"launch_id": self.launch_id, "step": step, "sequence": step} | more
        host = replace(self.incident.host, rows=(self.process,), beat=said)
        self.incident.host = host

    def read(self, at_s: int, step: int, **more: JsonValue) -> None:
        """So many seconds after the start somebody reads a heartbeat that says so much."""
        self.incident.now_us = self.act.at_us + at_s * 1_000_000
        self.shows(step, **more)
        self.incident.looks("read_heartbeat")

    def look(self, step: int, **more: JsonValue) -> None:
        """The engine reads a heartbeat that says so much."""
        self.shows(step, **more)
        self.incident.until("read_heartbeat")
        self.incident.answered()


def started(*, config: PolicyConfig | None = None) -> Start:
    """A job that was gone, started."""
    return Start(gone(config=config))
