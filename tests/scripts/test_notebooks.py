"""Notebooks are executed in a folder, and kept in the cache; a cell that fails is an error."""

from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from notebooks import EXECUTED, executed, kit_digest, printed, with_outputs


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


def test_the_outputs_come_from_the_cache_until_the_notebook_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path / "cache"))
    path = planted(tmp_path, "import random\nprint(random.getrandbits(64))")
    first = with_outputs(path)
    assert with_outputs(path) == first
    assert len(list(EXECUTED.folder.iterdir())) == 1
    planted(tmp_path, "import random\nprint(random.getrandbits(63))")
    assert with_outputs(path) != first


def test_the_digest_covers_kit_and_examples(tmp_path, monkeypatch):
    monkeypatch.setattr("notebooks.ROOT", tmp_path)
    (tmp_path / "sim").mkdir()
    (tmp_path / "src" / "vdla").mkdir(parents=True)
    (tmp_path / "src" / "vdla" / "sim").symlink_to(tmp_path / "sim")
    digests = set()
    for number in range(2):
        (tmp_path / "sim" / "deep").mkdir(exist_ok=True)
        (tmp_path / "sim" / "deep" / "one.py").write_text(f"x = {number}")
        digests.add(kit_digest.__wrapped__())
    assert len(digests) == 2
