"""Execution of notebooks, for the documentation site and for the tests."""

import os
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

CELL_SECONDS = 300
QUIET = ["--IPKernelApp.log_level=ERROR"]  # no warning for each kernel that others on this machine may listen


def executed(path: Path, folder: str | os.PathLike[str]) -> nbformat.NotebookNode:
    """Execute a notebook in a folder, with the modules of this process; return it with its outputs.

    Raises:
        CellExecutionError: a cell fails.
    """
    notebook = nbformat.read(path, 4)
    client = NotebookClient(
        notebook,
        timeout=CELL_SECONDS,
        kernel_name="python3",
        extra_arguments=QUIET,
        coalesce_streams=True,
        resources={"metadata": {"path": folder}},
    )
    client.execute(env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    return notebook


def printed(cell: nbformat.NotebookNode) -> str:
    """Return what a cell has printed."""
    return "".join(output.text for output in cell.get("outputs", ()) if output.get("name") == "stdout")
