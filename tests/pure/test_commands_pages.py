"""The documentation says what the commands declare."""

from agentops.commands import COMMANDS
from tests.support.write_pages import FOLDER, pages


def test_every_page_is_what_its_command_declares() -> None:
    made = pages()
    found = {path.name: path.read_text() for path in FOLDER.glob("*.md")}
    assert found == made, "run python -m tests.support.write_pages"


def test_every_argument_and_assumption_stands_on_its_page() -> None:
    for name, command in COMMANDS.items():
        text = pages()[f"{name}.md"]
        for argument in command.model_json_schema().get("properties", {}):
            assert f"`{argument}`" in text
        for assumption in command.assumptions:
            assert assumption in text
