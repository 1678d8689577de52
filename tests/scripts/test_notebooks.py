"""Notebooks are executed in a folder; what a cell prints is one output, and a cell that fails is an error."""

from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from notebooks import executed, printed


def planted(folder: Path, code: str) -> Path:
    """Write a notebook of one cell; return its path."""
    path = folder / "planted.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)]), path)
    return path


def test_a_cell_prints_one_output_in_its_folder(tmp_path):
    code = "import os, time, vdla\nfor _ in range(3):\n    print(os.getcwd())\n    time.sleep(0.3)"
    (cell,) = executed(planted(tmp_path, code), tmp_path).cells
    assert len(cell.outputs) == 1
    assert printed(cell) == f"{tmp_path}\n" * 3


def test_a_cell_that_fails_is_an_error(tmp_path):
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        executed(planted(tmp_path, "1 / 0"), tmp_path)
