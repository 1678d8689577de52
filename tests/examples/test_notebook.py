"""The notebook runs, and its answer follows from what it measures."""

import os
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples" / "sweeps" / "memory.ipynb"


def test_the_notebook_answers_its_question(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    notebook = nbformat.read(NOTEBOOK, 4)
    NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    (answer,) = [
        output.text
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if output.get("name") == "stdout"
    ]
    suffice = {name: int(size) for name, size in re.findall(r"(\S+): (\d+) KiB suffice", answer)}
    assert set(suffice) == {"56x56", "7x7"}
    assert suffice["56x56"] < suffice["7x7"], "the layer with more weights needs more memory"
    changes = [
        (int(traffic), int(energy))
        for traffic, energy in re.findall(r"traffic (\S+)%, energy (\S+)%", answer)
    ]
    assert len(changes) == 2
    assert all(traffic < 0 < energy for traffic, energy in changes), "as its last paragraph says"
