"""Write the pages about the commands: ``python -m tests.support.write_pages``."""

from pathlib import Path

from agentops.commands import COMMANDS
from agentops.commands.pages import index, page

FOLDER = Path(__file__).parents[2] / "docs" / "commands"


def pages() -> dict[str, str]:
    """Text by file name."""
    made = {f"{name}.md": page(command) for name, command in COMMANDS.items()}
    return made | {"README.md": index(COMMANDS)}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
