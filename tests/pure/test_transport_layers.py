"""Each layer's argv, as golden text; and the one place that quotes."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentops.errors import UsageError
from agentops.hosts import Layer
from agentops.transport.layers import LAYERS, shell_line, wrap

GOLDEN = {
    "pct": ("200", "pct exec 200 --keep-env 0 -- printf %s 'a b'"),
    "docker": ("vllm-1", "docker exec -i vllm-1 printf %s 'a b'"),
    "sudo": ("ops", "sudo -n -u ops -- printf %s 'a b'"),
    "nsenter": ("4711", "nsenter --target 4711 --all -- printf %s 'a b'"),
}


@pytest.mark.parametrize("kind", sorted(LAYERS))
def test_every_layer_has_a_golden(kind: str) -> None:
    argument, line = GOLDEN[kind]
    assert shlex.join(LAYERS[kind](argument, ("printf", "%s", "a b"))) == line


def test_the_first_layer_is_the_outermost() -> None:
    layers = (Layer.from_text("pct:200"), Layer.from_text("docker:web"))
    assert wrap(layers, ("id",)) == (
        *("pct", "exec", "200", "--keep-env", "0", "--"),
        *("docker", "exec", "-i", "web", "id"),
    )


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"))))
def test_a_shell_line_splits_back_into_the_same_arguments(arguments: list[str]) -> None:
    assert shlex.split(shell_line(("printf", *arguments)))[1:] == ["printf", *arguments]


def test_a_nul_byte_is_refused_with_its_place() -> None:
    with pytest.raises(UsageError, match="argument 1 holds a NUL byte"):
        shell_line(("printf", "a\0b"))


@pytest.mark.parametrize(
    "text",
    ["pct:-200", "pct:abc", "docker:--privileged", "sudo:-u", "sudo:root;id", "nsenter:0", "lxc:1",
     "pct:200\n", "pct:", ""],
)  # fmt: skip
def test_a_layer_that_could_be_read_as_an_option_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not known"):
        Layer.from_text(text)
