"""Which programs only look, and which act: the words that the hook goes by.

A program that stands nowhere here is taken to act. Not here: what to call instead
(``agentops.hook.advice``).
"""

import re
from collections.abc import Mapping


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


READS = _words("""
    [ [[ arch awk b2sum basename case cat cd cksum cmp column comm command cut date df diff
    dirname dmesg du echo egrep env exit export false fgrep file find findmnt for free getconf
    getent getfacl grep groups head hexdump hostname hostnamectl htop id ifconfig ifstat iostat
    ipcs jobs journalctl jq last ldd less local ls lsattr lsb_release lsblk lscpu lslocks lsmem
    lsmod lsns lsof lspci lsusb md5sum mpstat namei netstat nproc numastat od pgrep pidof
    pidstat ping printenv printf ps pstree pwd read readlink realpath return rg route sar sed
    sensors seq set sha1sum sha256sum sha512sum shift sleep sort ss stat strings sum tac tail
    test top tr traceroute tree true tty type ulimit umask uname uniq unset uptime users vmstat
    w wait wc whereis which who whoami xxd yes zcat zgrep :
""")
SIGNALLERS = _words("kill pkill killall killall5 skill slay fuser tkill")
POWER = _words("reboot shutdown poweroff halt init telinit")
COPIERS = _words("scp rsync")
GPU_TOOLS = _words("nvidia-smi rocm-smi nvitop gpustat nvtop")
STOPPERS = _words("systemctl service docker podman kubectl pct qm tmux")
# The verbs by which these only look; any other acts.
READING_VERBS: Mapping[str, frozenset[str]] = {
    "systemctl": _words(
        "status show cat is-active is-enabled is-failed list-units list-timers list-sockets"
        " list-dependencies list-jobs list-unit-files"
    ),
    "docker": _words("ps logs inspect top stats images info version port diff history events"),
    "podman": _words("ps logs inspect top stats images info version port diff"),
    "kubectl": _words("get describe logs top version explain api-resources"),
    "pct": _words("list status config df"),
    "qm": _words("list status config"),
    "tmux": _words(
        "ls list-sessions list-windows list-panes lsp lsw capture-pane capturep has-session has"
        " display-message display show-options info"
    ),
    "git": _words("status log diff show rev-parse describe blame ls-files grep"),
    "crontab": _words("-l"),
    "screen": _words("-ls -list"),
    "ip": _words("a addr address r route l link n neigh"),
}
_WRITING: Mapping[str, str] = {
    "sed": r"(^|\s)(-[a-zA-Z]*i|--in-place)|/e\b|\bw\s+/",
    "awk": r"system\s*\(|\|\s*\"|\"\s*\||>\s*\"",
    "date": r"(^|\s)(-s|--set)",
    "hostname": r"(^|\s)[^-\s]|-F|-b",
    "find": r"-delete|-fprint|-fls|-exec|-ok",
    "sort": r"(^|\s)-o",
    "dmesg": r"(^|\s)(-C|-c|--clear|--read-clear)\b",
    "journalctl": r"--vacuum|--rotate|--flush",
    "ifconfig": r"\S\s+\S",
    "route": r"(^|\s)(add|del|flush)\b",
}


def writes_after_all(name: str, words: tuple[str, ...]) -> bool:
    """Whether a program that reads is told to write, or to run something."""
    pattern = _WRITING.get(name)
    return pattern is not None and re.search(pattern, " ".join(words)) is not None
