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
        "scheduler_ended",
        "root",
        "R1",
        "cancelled at",
        r"CANCELLED AT \S+ DUE TO [A-Z][A-Z ]+",
        "the scheduler ended the job: its time, a preemption, or a lost node",
        "the scheduler's record of the job; the last checkpoint against the last step",
        "a fault of the job",
        outside=True,
    ),
    Row(
        "cancelled",
        "either",
        "R5",
        "cancelled at",
        r"\*\*\* (?:JOB|STEP) \S+ ON \S+ CANCELLED AT \S+ \*\*\*",
        "somebody, or a limit, had the scheduler end the job",
        "the scheduler's record: who cancelled it, or which limit",
        "a fault of the job",
        outside=True,
    ),
    Row(
        "terminated",
        "cascade",
        "R5",
        "got signal|death signal|closing signal",
        r"SignalException: Process \d+ got signal: \d+|\bReceived \S+ death signal\b"
        r"|\bSending process \d+ closing signal SIG\w+",
        "a launcher was told to end, or ends the others after one failed",
        "who sent the first signal: the scheduler, a person, or a rank that failed",
        "that the process which was told to end is at fault",
        outside=True,
    ),
    Row(
        "F75",
        "either",
        "R1",
        "brokenpipeerror",
        r"BrokenPipeError: \[Errno 32\]",
        "whatever read the job's output went away first",
        "the members of the pipeline, and the time of the last line",
        "that the job's exit status was recorded: a pipeline's status is its last member's",
    ),
)
