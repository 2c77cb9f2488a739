"""The notebook on training and decoding runs as a reader would run it, and its drafter drafts."""

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "04_train_and_speculate.ipynb"
BAR = 2.0

pytestmark = pytest.mark.timeout(400)


def test_the_notebook_runs_and_its_drafter_is_worth_its_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cells = [
        cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"
    ]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    monkeypatch.setenv("MPLBACKEND", "agg")
    names: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        code = compile("".join(cell["source"]), f"{NOTEBOOK.name}:{number}", "exec")
        exec(code, names)  # noqa: S102  (our own notebook, run as a reader would)
    reached = names["acceptance_length"]
    assert isinstance(reached, float)
    assert reached >= BAR
