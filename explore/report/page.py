"""One HTML file from its parts: skeleton, style sheet, scripts, Vega and the data.

The file loads nothing: its content security policy forbids every request. The data are JSON or columns of
numbers, compressed with gzip and written in base64; the page unpacks them when it opens.
"""

import base64
import gzip
import html
import json
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.extras import require_package
from vdla.hw.spec.shelf import Shelf
from vdla.hw.spec.writing import write_text

ASSETS = files("vdla.explore.report.assets")
BUNDLES = Shelf("scripts", 8 << 20)
COMMON_SCRIPTS = ("data.js", "theme.js", "table.js", "charts.js")
SNIPPET = "window.vegaEmbed = vegaEmbed;"


def write_page(path: Path, title: str, body: str, scripts: tuple[str, ...], data: object) -> Path:
    """Write one self-contained page.

    Args:
        path: the file to write.
        title: of the browser's window.
        body: name of the asset that holds the page's body.
        scripts: names of the assets that run after the common assets, in order.
        data: JSON values; the scripts get them from `unpack()`.

    Returns:
        `path`.

    Raises:
        OutputError: the file cannot be written.
        ToolError: the package that holds Vega is not installed.
    """
    return _write(path, title, body, scripts, packed(data), library())


def write_column_page(path: Path, title: str, body: str, scripts: tuple[str, ...], content: bytes) -> Path:
    """Write one self-contained page whose data are bytes, and that draws without Vega.

    Args:
        path, title, body, scripts: as in `write_page`.
        content: the scripts get it from `unpackedBytes()`.

    Returns:
        `path`.

    Raises:
        OutputError: the file cannot be written.
    """
    return _write(path, title, body, scripts, packed_bytes(content), "")


def _write(path: Path, title: str, body: str, scripts: tuple[str, ...], data: str, library: str) -> Path:
    parts = {
        "title": html.escape(title),
        "style": asset("page.css"),
        "body": asset(body),
        "data": data,
        "library": library,
        "scripts": "\n".join(asset(name) for name in (*COMMON_SCRIPTS, *scripts)),
    }
    text = asset("page.html")
    for name, part in parts.items():
        text = text.replace(f"<!--{name}-->", part)
    write_text(path, text)
    return path


def asset(name: str) -> str:
    """Return the text of one file of `assets/`."""
    return ASSETS.joinpath(name).read_text(encoding="utf-8")


def packed(data: object) -> str:
    """Return JSON values as the page holds them: gzip in base64, the same for the same values."""
    return packed_bytes(json.dumps(data, separators=(",", ":"), allow_nan=False).encode())


def packed_bytes(content: bytes) -> str:
    """Return bytes as the page holds them: gzip in base64, the same for the same bytes."""
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()


def library() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script; bundling takes seconds, so the result is kept.

    Raises:
        ToolError: the package that holds them is not installed.
    """
    require_package("vl_convert", "a report")
    key = digest_of([version("vl-convert-python"), SNIPPET])
    kept = BUNDLES.read(key)
    if kept is None:
        import vl_convert

        kept = vl_convert.javascript_bundle(SNIPPET).encode()
        BUNDLES.write(key, kept)
    return kept.decode()
