"""Print the kernel's messages that matter to a GPU job. Runs on hosts."""

from __future__ import annotations

import os
import re
import time

from agentops.commands.remote.identity import answer, text

ROWS_MAX = 500
TELLING = re.compile(
    rb"NVRM|Xid|Out of memory|oom-kill|oom_reaper|Killed process|blocked for more than|segfault|"
    rb"general protection|I/O error|EXT4-fs error|XFS .*error|nfs: server|NVLink|AER:|mce:|Hardware Error"  # noqa: E501
)
RECORD_LIMIT = 8192


def main() -> None:
    """The log's extent, then the telling messages with microseconds since boot.

    Source: Documentation/ABI/testing/dev-kmsg: "prefix,sequence,microseconds,flags;text".
    """
    head: dict[str, object] = {"readable": False, "messages": 0, "first_us": None, "last_us": None}
    rows = []
    try:
        log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
        os.read(log, RECORD_LIMIT)
        os.lseek(log, 0, os.SEEK_SET)
    except OSError as error:
        head["problem"] = error.strerror
        answer(head)
        return
    count = 0
    while True:
        try:
            record = os.read(log, RECORD_LIMIT)
        except BrokenPipeError:
            # The ring moved on under us; the next read gives the oldest that is left.
            continue
        except OSError:
            break
        prefix, _, message = record.partition(b";")
        fields = prefix.split(b",")
        at_us = int(fields[2])
        count += 1
        if head["first_us"] is None:
            head["first_us"] = at_us
        head["last_us"] = at_us
        line = message.split(b"\n")[0]
        if TELLING.search(line):
            rows.append({"at_us": at_us, "level": int(fields[0]) & 7, "text": text(line)})
    now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    head.update(readable=True, messages=count, now_us=now_us, problem=None)
    answer(head, *rows[-ROWS_MAX:])


if __name__ == "__main__":
    main()
