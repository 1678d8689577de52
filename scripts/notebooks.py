"""Execution of notebooks, for the documentation site and for the tests.

The build cache keeps executed notebooks, so that the site need not execute what the tests have executed.
"""

import os
import sys
import tempfile
from functools import cache
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.shelf import Shelf

ROOT = Path(__file__).parents[1]
CELL_SECONDS = 300
QUIET = ["--IPKernelApp.log_level=ERROR"]  # no warning for each kernel that others on this machine may listen
EXECUTED = Shelf("notebooks", 32 << 20)
FOLDERS = (
    "src/vdla",
    "src/vdla/*",
    "examples",
    "scripts",
)  # src/vdla links to packages, which ** does not enter
SUFFIXES = ("py", "cpp", "hpp", "json", "jsonl", "toml", "onnx")


@cache
def kit_digest() -> str:
    """Return a digest of the Python, the kit and its examples, which decide what notebooks print."""
    paths = {
        path for folder in FOLDERS for suffix in SUFFIXES for path in ROOT.glob(f"{folder}/**/*.{suffix}")
    }
    return digest_of(
        [
            sys.version,
            *(part for path in sorted(paths) for part in (str(path.relative_to(ROOT)), path.read_bytes())),
        ]
    )


def executed(path: Path, folder: str | os.PathLike[str]) -> nbformat.NotebookNode:
    """Execute a notebook in a folder, with the modules of this process; return it with its outputs.

    Raises:
        CellExecutionError: a cell fails.
    """
    key = digest_of([kit_digest(), path.read_bytes()])
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
    EXECUTED.write(key, nbformat.writes(notebook).encode())
    return notebook


def with_outputs(path: Path) -> str:
    """Return a notebook with its outputs, as JSON: from the cache, or else executed in a temporary folder.

    Raises:
        CellExecutionError: a cell fails.
    """
    kept = EXECUTED.read(digest_of([kit_digest(), path.read_bytes()]))
    if kept is not None:
        return kept.decode()
    with tempfile.TemporaryDirectory(prefix="vdla-notebook-") as folder:
        return nbformat.writes(executed(path, folder))


def printed(cell: nbformat.NotebookNode) -> str:
    """Return what a cell has printed."""
    return "".join(output.text for output in cell.get("outputs", ()) if output.get("name") == "stdout")
