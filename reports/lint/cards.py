"""Cards: what a tool's answer or option shows, and what people read into it that it does not show.

Here: background knowledge about common tools, one card a tool or option, each from its manual.
Not here: any statement about an incident.
"""

import re
from dataclasses import dataclass

_I = re.IGNORECASE


@dataclass(frozen=True, slots=True)
class Card:
    """``mentions`` finds a sentence about the thing, ``beyond`` what goes beyond its scope.

    ``even_supposed``: the reading is wrong as a supposition too, so that "if" does not excuse it.
    """

    rule: str
    name: str
    mentions: re.Pattern[str]
    beyond: re.Pattern[str]
    scope: str
    even_supposed: bool = False


def _card(
    rule: str, name: str, mentions: str, beyond: str, scope: str, *, even_supposed: bool = False
) -> Card:
    found, over = re.compile(mentions, _I), re.compile(beyond, _I)
    return Card(rule, name, found, over, scope, even_supposed)


CARDS = (
    _card(
        "C06",
        "ps %CPU",
        r"%\s*CPU|\bCPU (?:usage|load|percent)|pcpu",
        r"\b(?:active\w*|running|full|now|current\w*|capacity|busy|unmistak\w*|working|consum\w*)\b",
        "CPU time over the process's whole life, not what it does now (ps(1))",
    ),
    _card(
        "C06",
        "virtual memory size",
        r"\b(?:VSZ|virtual (?:memory|address)|VIRT)\b",
        r"\b(?:CUDA|GPU|alloc\w*|wait\w*|exit\w*|viable|typical|characteristic|uses?|resources)\b",
        "reserved address space; it says nothing of use, of device memory or of how an exit goes",
    ),
    _card(
        "C06",
        "resident set size",
        r"\bRSS\b|\bresident\b",
        r"\bGPU\b|\bVRAM\b|\bdevice memory\b",
        "host memory; it is not comparable with device memory",
    ),
    _card(
        "C17",
        "ssh ConnectTimeout",
        r"ConnectTimeout|connect(?:ion)? timeout",
        r"\b(?:authenticat\w*|log[- ]?in|hang\w*|indefinite\w*|remote command)\b",
        "TCP connection and key exchange only, not authentication or the command (ssh_config(5))",
        even_supposed=True,
    ),
    _card(
        "C17",
        "seconds of a connection",
        r"\bSSH authentication\b",
        r"\bwithin \d+ s(?:econds)?\b",
        "a connect timeout does not bound authentication",
        even_supposed=True,
    ),
    _card(
        "C02",
        "pkill -f",
        r"(?<!\w)-\w*f\b|\bpkill\b|\bpgrep\b",
        r"\b(?:full )?process[- ]name\b",
        "-f matches whole command lines, that of the shell around it included (pgrep(1))",
        even_supposed=True,
    ),
    _card(
        "C02",
        "grep -v",
        r"grep -v|\b(?:exclud|remov|drop)\w*\b.*\bgrep\b|\bgrep\b.*\b(?:exclud|remov|drop)\w*\b",
        r"\b(?:itself|only the grep|just the grep|the grep process)\b",
        "every line with the word goes, innocent ones too (grep(1))",
    ),
    _card(
        "C13",
        "SIGKILL",
        r"\bSIGKILL\b|\bkill -9\b|-9\b",
        r"\b(?:immediate\w*|instant\w*|frees?|clean(?:s|ing)? up|all resources|releas\w+)\b",
        "sent, not obeyed: a process in an uninterruptible wait stays; so do segments (signal(7))",
    ),
    _card(
        "C11",
        "SIGKILL and children",
        r"\bSIGKILL\b|\bkill -9\b",
        r"\bparent\b.*\b(?:terminate|kill|end)\w*|\bchild\w*\b.*\b(?:terminate|die|end)\w*",
        "children of a killed process get another parent, they are not killed",
    ),
    _card(
        "C14",
        "device memory reading",
        r"\b0\s?MiB\b|\bGPU memory\b|\bmemory\.used\b|\bdevice memory\b",
        r"\b(?:process\w* (?:is|was|were|has|had|fully)|terminated|dead|OOM risk|crash)\b",
        "memory on the device; not whether a process lives, nor whether a later run fits",
    ),
    _card(
        "C14",
        "one file is there",
        r"\bconfig\.json\b|\bfile(?:'s)? (?:exist\w*|presence)\b|\btest -[efs]\b|\bmodel-ok\b",
        r"\b(?:integrity|intact|complete|survived|loadable|corrupt\w*|valid|confidence)\b",
        "that one name exists; nothing of its content or of other files",
    ),
    _card(
        "C14",
        "a fixed wait",
        r"\bsleep(?: \d+)?\b|\b(?:\d+|[a-z]+) seconds? (?:is|are|was|for|before)\b|\bwaited\b",
        r"\b(?:gives?|enough|sufficient|insufficient|time to|ensur\w*|accounts? for|heuristic)\b",
        "time passed, unless a condition was observed at its end",
    ),
    _card(
        "C19",
        "keyboard interrupt",
        r"\bCtrl-C\b|\bsend-keys\b|\bSIGINT\b|\binterrupt signal\b|\bkeystroke\b|\btmux\b",
        r"\b(?:display|screen|pane only|caught and ignored|only interrupted)\b",
        "the terminal signals its foreground process group; who took it is to be looked up",
    ),
    _card(
        "C14",
        "signals and filesystems",
        r"\b(?:p?kill|SIGKILL|signal)\b",
        r"\b(?:unmount\w*|corrupt\w*)\b.*\b(?:memory|file|disk|region|shm)\b",
        "a signal acts on processes; it mounts and unmounts nothing",
        even_supposed=True,
    ),
    _card(
        "C18",
        "pattern kill",
        r"\bother\b.*\bprocess\w*\b|\bcollateral\b",
        r"\b(?:would|could|might|may)\b.*\bkilled\b|\bacceptable\b",
        "whom a pattern finds can be listed before; the set is to be computed, not supposed",
        even_supposed=True,
    ),
)
