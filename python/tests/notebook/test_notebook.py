"""The notebook of docs/ is that of python/notebook, and it runs: needs $SHOAL, which python/test notebook sets."""

import re
import sys
from pathlib import Path

import nbformat

PYTHON = Path(__file__).parents[2]
sys.path.append(str(PYTHON / "notebook"))

import make  # noqa: E402


def sources(notebook):
    return [(cell.cell_type, cell.id, cell.source) for cell in notebook.cells]


def check_outputs(notebook):
    """The cells ran in order, and show what they should."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]
    assert len([1 for output in outputs if "image/png" in output.get("data", ())]) == 2
    text = "".join(output.text for output in outputs if output.output_type == "stream")
    test, loaded = (
        float(re.search(f"{what} (0.[0-9]+)", text)[1]) for what in ("test accuracy", "of the loaded model:")
    )
    assert test > 0.8
    assert abs(loaded - test) < 1e-3
    (bar,) = (output.data["text/plain"] for cell in cells for output in cell.outputs if "100%" in str(output))
    assert re.fullmatch(r"\[#{30}\] 100% finished: step 938, test loss 0\.\d+, test accuracy 0\.\d+", bar)


def test_the_notebook_of_the_docs_has_the_cells_of_its_source_and_their_outputs():
    assert make.RESULT.stat().st_size < 150_000
    notebook = nbformat.read(make.RESULT, as_version=4)
    assert sources(notebook) == sources(make.new_notebook())
    check_outputs(notebook)


def test_the_notebook_can_be_executed(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(PYTHON))
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "matplotlib"))
    notebook = make.new_notebook()
    make.execute(notebook, tmp_path, timeout=900)
    check_outputs(notebook)
