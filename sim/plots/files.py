"""Writing a figure: whole or not at all, and the same bytes for the same figure."""

import os
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from vdla.hw.spec.errors import FileFormatError

FORMATS = {".png": {"Software": None}, ".svg": {"Date": None}}  # with the metadata that must not differ from run to run
STYLE = {"svg.hashsalt": "vdla", "svg.fonttype": "none", "font.size": 9, "axes.spines.top": False, "axes.spines.right": False}


def save(figure: Figure, path: str | Path) -> None:
    """Write `figure` to `path`, as PNG or SVG by its suffix.

    Raises:
        FileFormatError: the suffix is another.
    """
    path = Path(path)
    if path.suffix not in FORMATS:
        raise FileFormatError(f"{path}: a plot is written as {' or '.join(FORMATS)}, not as {path.suffix or 'a file without a suffix'}")
    part = path.with_name(f".{path.name}.part")
    try:
        with mpl.rc_context(STYLE):
            figure.savefig(part, format=path.suffix[1:], dpi=150, metadata=FORMATS[path.suffix])
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
