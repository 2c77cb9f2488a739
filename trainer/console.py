"""What a person or a program sees: a bar on a terminal, else one JSON object a line.

The log lines of a training run are the exception: they are part of the run's contract
(``trainer.heartbeat``) and keep their form unless another is asked for.
"""

import json
import sys
from collections.abc import Callable
from typing import Literal, TextIO

from trainer.heartbeat import Metric, log_line
from trainer.reading import Json, plain

LogForm = Literal["auto", "bar", "lines", "json"]
_BAR_WIDTH = 30


def emit(record: dict[str, Json], stream: TextIO | None = None) -> None:
    """One record: an aligned block on a terminal, else one line of JSON."""
    stream = stream or sys.stdout
    if stream.isatty():
        width = max(map(len, record))
        for key, value in record.items():
            text = value if isinstance(value, str) else json.dumps(value)
            stream.write(f"{key:<{width}}  {text}\n")
    else:
        stream.write(json.dumps(record) + "\n")
    stream.flush()


def reporter(form: LogForm, steps: int, stream: TextIO | None = None) -> Callable[[Metric], None]:
    """What to call with each logged step; ``auto`` is a bar on a terminal, else log lines."""
    out = stream or sys.stdout
    if form == "auto":
        form = "bar" if out.isatty() else "lines"

    def report(metric: Metric) -> None:
        if form == "json":
            out.write(json.dumps(plain(metric)) + "\n")
        elif form == "bar":
            out.write("\r" + bar(metric, steps) + ("\n" if metric.step >= steps else ""))
        else:
            out.write(log_line(metric) + "\n")
        out.flush()

    return report


def bar(metric: Metric, steps: int) -> str:
    """One line that redraws itself.

    >>> bar(Metric(step=1, loss=2, grad_norm=1, lr=0.1, tokens=8, tokens_per_s=90), 2)[:44]
    '[###############...............] 1/2 loss 2.'
    """
    filled = _BAR_WIDTH * min(metric.step, steps) // steps
    drawn = "#" * filled + "." * (_BAR_WIDTH - filled)
    text = f"[{drawn}] {metric.step}/{steps} loss {metric.loss:.4f} {metric.tokens_per_s:.0f} tok/s"
    if metric.acceptance_proxy is not None:
        text += f" proxy {metric.acceptance_proxy:.2f}"
    return text + "  "
