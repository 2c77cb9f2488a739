"""Start an argv under a wanted pid of this namespace: ask the kernel for it until it fits.

Arguments: the pid, the argv. Status 1 when the pid could not be had.
"""

import os
import sys

ATTEMPTS = 200


def main() -> int:
    """Fork until the child has the pid; that child becomes the argv."""
    wanted = int(sys.argv[1])
    for _ in range(ATTEMPTS):
        with open("/proc/sys/kernel/ns_last_pid", "w") as last:  # noqa: PTH123 - starts fast
            last.write(str(wanted - 1))
        child = os.fork()
        if child == 0:
            if os.getpid() == wanted:
                os.setsid()
                nothing = os.open(os.devnull, os.O_RDWR)
                for descriptor in (0, 1, 2):
                    os.dup2(nothing, descriptor)
                os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - an argv, no shell
            os._exit(0)
        if child == wanted:
            return 0
        os.waitpid(child, 0)
    return 1


if __name__ == "__main__":
    sys.exit(main())
