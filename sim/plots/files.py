"""How figures look, and writing them: whole or not at all, and the same bytes for the same figure."""

import io
from contextlib import AbstractContextManager
from pathlib import Path

import matplotlib.style
from matplotlib.figure import Figure

from vdla.hw.spec.errors import FileFormatError
from vdla.hw.spec.writing import write_bytes

FORMATS = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
}  # with the metadata that must not differ from run to run
STYLE = {
    "svg.hashsalt": "vdla",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def styled() -> AbstractContextManager[None]:
    """Return the context to draw and write in: our style, whatever the user's matplotlib is set to, which it
    leaves as it was."""
    return matplotlib.style.context(["default", STYLE])


def check_suffix(path: str | Path) -> Path:
    """Return `path`, if `save` knows its format.

    Raises:
        FileFormatError: the suffix is another.
    """
    path = Path(path)
    if path.suffix not in FORMATS:
        raise FileFormatError(
            f"{path}: a plot is written as {' or '.join(FORMATS)}, not as "
            f"{path.suffix or 'a file without a suffix'}"
        )
    return path


def save(figure: Figure, path: str | Path) -> None:
    """Write `figure` to `path`, as PNG or SVG by its suffix.

    Raises:
        FileFormatError: the suffix is another.
        OutputError: it cannot be written; what stood there is as it was.
    """
    path, picture = check_suffix(path), io.BytesIO()
    with styled():
        figure.savefig(picture, format=path.suffix[1:], dpi=150, metadata=FORMATS[path.suffix])
    write_bytes(path, picture.getvalue())
