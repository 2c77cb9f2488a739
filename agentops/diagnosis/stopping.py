"""Signatures of jobs that are being stopped.

Here: rows only. Not here: matching (``agentops.diagnosis.scan``).
"""

from agentops.diagnosis.signature import Row

STOPPING = (
    Row(
        "F73",
        "info",
        "R4",
        "exception ignored",
        r"Exception ignored (?:in\b.*\bthreading|on threading shutdown)",
        "the interpreter was interrupted while it waited for threads that are not daemons",
        "number of threads, and whether steps still advance",
        "that the process has ended: only its main thread was interrupted",
    ),
    Row(
        "interrupt_taken",
        "info",
        "R4",
        "keyboardinterrupt",
        r"^\s*KeyboardInterrupt\b(?!\s*[(,])",
        "an interrupt reached the interpreter's main thread",
        "whether steps advance after it",
        "that the process has ended",
    ),
    Row(
        "F75",
        "root",
        "R1",
        "brokenpipeerror",
        r"BrokenPipeError: \[Errno 32\]",
        "whatever read the job's output went away first",
        "the members of the pipeline, and the time of the last line",
        "that the job's exit status was recorded: a pipeline's status is its last member's",
    ),
)
