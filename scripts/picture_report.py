#!/usr/bin/env python3
"""Take a picture of a report in Chromium, for a page of documentation.

docs/pictures/sweep_report.png shows the sweep examples/sweeps/networks.toml; run_report.png shows
`vdla report build/models/resnet18_int8.onnx`; diff_report.png shows
`vdla diff build/resnet18.vdla build/resnet18_small.vdla -o build/diff.html`; and debugger.png shows
`vdla debug build/resnet18.vdla -o build/debug.html` in cycle 17,272, with the chain of the store unit.
"""

import io
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from vdla.cli._options import reports_errors
from vdla.hw.spec.errors import ToolError
from vdla.hw.spec.writing import write_bytes

COLOURS = 256  # of the picture: few colours make a small file


@click.command(help=__doc__)
@click.argument("page", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("picture", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--width", default=1280, show_default=True, help="Of the window, in pixels.")
@click.option("--height", default=1000, show_default=True, help="Of the window, in pixels.")
@click.option("--dark", is_flag=True, help="As on a system with dark colours.")
@click.option("--run", "script", metavar="JAVASCRIPT", help="Evaluate this in the page first.")
@reports_errors
def main(page: Path, picture: Path, width: int, height: int, dark: bool, script: str | None) -> None:
    write_bytes(picture, small_png(screenshot(page, width, height, dark, script)))
    click.echo(f"{picture}: {picture.stat().st_size / 1024:.0f} KiB")


@contextmanager
def chromium() -> Iterator[Any]:
    """Start Chromium without a window, as a browser of Playwright.

    Raises:
        ToolError: it is not installed.
    """
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium")
    if path is None:
        raise ToolError("a report is shown in chromium; `make tools` installs it where it may")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def screenshot(page: Path, width: int, height: int, dark: bool, script: str | None) -> bytes:
    """Return what Chromium shows of a page, as PNG."""
    with chromium() as browser:
        size = {"width": width, "height": height}
        tab = browser.new_page(viewport=size, color_scheme="dark" if dark else "light")
        tab.goto(page.resolve().as_uri())
        tab.wait_for_selector("html[data-ready]")
        if script:
            tab.evaluate(script)
            tab.wait_for_timeout(1000)
        data: bytes = tab.screenshot()
    return data


def small_png(data: bytes) -> bytes:
    """Return a PNG with a palette of COLOURS."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image, io.BytesIO() as file:
        image.convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            file, "PNG", optimize=True
        )
        return file.getvalue()


if __name__ == "__main__":
    main()
