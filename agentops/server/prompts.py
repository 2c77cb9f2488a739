"""Ready words for three tasks: which tools, in which order, and what counts as proof. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from string import Template


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: its name, what it is for, the arguments it takes, and its text."""

    name: str
    says: str
    takes: tuple[str, ...]
    text: str

    def filled(self, given: Mapping[str, str]) -> str:
        """The text with the arguments in their places, each as one quoted word."""
        return Template(self.text).safe_substitute({k: repr(v) for k, v in given.items()})


_ALL = (
    Prompt(
        "stop_training",
        "Stop a training job and prove that it is gone",
        ("host", "job"),
        """Stop the training job $job on host $host.
1. observe host=$host job=$job: say what runs and how old its heartbeat is.
2. stop host=$host job=$job with your reason. Repeat the same call while its verdict is inconclusive
   and it is under way.
3. Say stopped only if the verdict is confirmed; quote the event ids. If it needs an approval, give
   the person the id and wait. Never use run_argv to get around an answer.""",
    ),
    Prompt(
        "post_kill_check",
        "After a job was ended: is it gone, is the memory free, may it be started?",
        ("host", "job"),
        """Check what is left of $job on host $host after it was ended.
1. check host=$host condition=job_absent job=$job.
2. observe host=$host what=[gpus, gpu_processes, shared_memory].
3. wait_until gpu_memory_at_most if a card still shows memory of it.
Report each verdict with its event ids. Inconclusive is not gone: say what could not be seen.""",
    ),
    Prompt(
        "incident_review",
        "Review one incident from the journal",
        ("incident",),
        """Review incident $incident.
1. report incident=$incident depth=incident.
2. journal incident=$incident for anything that the report leaves open; blob for outputs.
Tell what was shown, by which events, what was changed, and what stayed unknown. Quote event ids;
do not add causes that no event shows.""",
    ),
)
PROMPTS: Mapping[str, Prompt] = {prompt.name: prompt for prompt in _ALL}
