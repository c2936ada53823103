"""Makes docs/notebook.ipynb: the cells of notebook.md, executed.

    export SHOAL=$PWD/bazel-bin/deploy/shoal PYTHONPATH=$PWD/python
    $(tests/peers/install torch numpy nbclient ipykernel matplotlib)/bin/python3 python/notebook/make.py

`python/test notebook` executes the notebook and checks that the file has its cells.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import v4

SOURCE = Path(__file__).parent / "notebook.md"
RESULT = Path(__file__).parents[2] / "docs/notebook.ipynb"


def new_notebook():
    """Returns the notebook of notebook.md, not executed: Python in fences becomes code cells."""
    notebook = v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    for number, part in enumerate(re.split(r"^```python\n(.*?)^```\n", SOURCE.read_text(), flags=re.M | re.S)):
        if part.strip():
            cell = (v4.new_code_cell if number % 2 else v4.new_markdown_cell)(part.strip())
            cell["id"] = f"cell-{number}"  # Otherwise random.
            notebook.cells.append(cell)
    return notebook


def execute(notebook, folder, timeout):
    """Executes a notebook in a folder, each cell for at most `timeout` seconds; raises what a cell raises."""
    os.environ["IPYTHONDIR"] = os.path.join(folder, "ipython")
    client = NotebookClient(
        notebook, timeout=timeout, record_timing=False, resources={"metadata": {"path": str(folder)}}
    )
    client.execute()


def main():
    if "SHOAL" not in os.environ:
        sys.exit("make.py: set SHOAL to the absolute path of the command, and PYTHONPATH to that of python/")
    notebook = new_notebook()
    with tempfile.TemporaryDirectory() as folder:
        execute(notebook, folder, timeout=1800)
    nbformat.validate(notebook)
    nbformat.write(notebook, RESULT)
    print(f"{RESULT}: {RESULT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
