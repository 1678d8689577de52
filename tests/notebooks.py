"""Notebooks as the tests execute them."""

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

CELL_SECONDS = 300


def executed(path: Path, folder: Path) -> nbformat.NotebookNode:
    """Execute a notebook in a folder; return it with its outputs.

    Raises:
        CellExecutionError: a cell fails.
    """
    notebook = nbformat.read(path, 4)
    client = NotebookClient(
        notebook, timeout=CELL_SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}}
    )
    client.execute(env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    return notebook


def printed(cell: nbformat.NotebookNode) -> str:
    """Return what a cell has printed."""
    return "".join(output.text for output in cell.get("outputs", ()) if output.get("name") == "stdout")
