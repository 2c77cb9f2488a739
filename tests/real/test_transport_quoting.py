"""Arguments arrive byte for byte, through real shells and three layers deep."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentops.transport import LocalTransport, SshTransport
from tests.support.boxes import Box, host_of, run_argv

HOSTILE = (
    "$(id)", "`id`", "$HOME", "a b", "'", '"', "it's", "\\", "\\\\", "*", "?", "[a]", "~", "!!",
    "#x", "-n", "--", ";", "&", "|", ">f", "\n", "a\nb", "\t", "", "%s%n", "${IFS}", "äöü", "日本",
    "\x1b[31m", "\x01", "\x7f", "{a,b}", "=x", "(", ")", "$'\\n'", "a'b\"c`d$e\\f",
)  # fmt: skip
printable = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


async def echoed(transport: SshTransport | LocalTransport, *arguments: str) -> list[bytes]:
    ran = await run_argv(transport, "printf", "%s\\0", *arguments)
    return ran.completed.stdout.split(b"\0")[:-1]


@pytest.mark.needs("root-namespaces", "sshd")
async def test_hostile_arguments_arrive_as_they_were_sent_three_layers_deep(box: Box) -> None:
    init = box.containers["200"].pid_within(1)
    # ssh to the host, nsenter to the container as a second way in, then pct's stand-in once more.
    for layers in ((), ("pct:200",), (f"nsenter:{init}",)):
        transport = SshTransport(host_of(box, *layers))
        assert await echoed(transport, *HOSTILE) == [word.encode() for word in HOSTILE]
        await transport.close()


@pytest.mark.needs("sshd")
async def test_any_text_arrives_through_ssh_pct_and_a_shell_of_the_commands_own(box: Box) -> None:
    transport = SshTransport(host_of(box, "pct:200"))

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(printable, min_size=1, max_size=20))
    def words(given_words: list[str]) -> None:
        collected.append(given_words)

    collected: list[list[str]] = []
    words()
    for arguments in collected:
        # The command's own sh is the third program between us and printf.
        ran = await run_argv(transport, "sh", "-c", 'exec printf "%s\\0" "$@"', "sh", *arguments)
        assert ran.out.split(b"\0")[:-1] == [word.encode() for word in arguments]
    await transport.close()


async def test_hostile_arguments_arrive_without_ssh_as_well() -> None:
    assert await echoed(LocalTransport(), *HOSTILE) == [word.encode() for word in HOSTILE]
