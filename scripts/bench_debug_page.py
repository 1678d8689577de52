#!/usr/bin/env python3
"""Measure a page of the debugger in Chromium: its size, the time until it is ready, and the time of a step.

PAGE is a file that `vdla debug MODULE -o PAGE` wrote. It is opened with windows of 1280 and 400 pixels, in
light and dark colours. Steps go by a cycle, an instruction and a layer, forwards and backwards, from the
quarters of the run. The time of a step ends with the frame that shows it, so it includes the wait for that
frame. Every step is measured several times, and the least time counts, so that other work of the machine does
not. Exit status 1 if a limit is exceeded, or if the page writes a warning or an error to the console.
"""

import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import click
from picture_report import chromium

from vdla.cli._options import reports_errors

WIDTHS, SCHEMES = (1280, 400), ("light", "dark")
MOST_MB, MOST_READY_S, MOST_STEP_MS = 20, 2, 50
QUARTERS = (0.0, 0.25, 0.5, 0.75)
STEPS = """async ([begins, steps, repeats]) => {
  const times = [];
  const drawn = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  for (const button of document.querySelectorAll("[data-step]")) {
    for (const begin of begins) {
      const least = Array(steps).fill(Infinity);
      for (let repeat = 0; repeat < repeats; repeat += 1) {
        page.goto(Math.round(begin * page.run.cycles));
        await drawn();
        for (let step = 0; step < steps; step += 1) {
          const start = performance.now();
          button.click();
          await drawn();
          least[step] = Math.min(least[step], performance.now() - start);
        }
      }
      times.push(...least);
    }
  }
  return times;
}"""
REPEATS = 5


@dataclass(frozen=True)
class Opening:
    """What was measured of a page in a window.

    Attributes:
        ready_s: seconds from its request until it has drawn everything.
        steps_ms: least milliseconds of each step.
        complaints: warnings and errors in the console.
    """

    width: int
    scheme: str
    ready_s: float
    steps_ms: tuple[float, ...]
    complaints: tuple[str, ...]

    def text(self) -> str:
        """Return the line that is printed."""
        median, worst = statistics.median(self.steps_ms), max(self.steps_ms)
        steps = f"{len(self.steps_ms)} steps, median {median:.0f} ms, worst {worst:.0f} ms"
        return f"{self.width:5} pixels, {self.scheme:5}: ready after {self.ready_s:.2f} s; {steps}"

    def faults(self) -> Iterator[str]:
        """Describe each limit that is exceeded."""
        if self.ready_s > MOST_READY_S:
            yield f"ready after {self.ready_s:.2f} s, and {MOST_READY_S} s are allowed"
        if max(self.steps_ms) > MOST_STEP_MS:
            yield f"a step takes {max(self.steps_ms):.0f} ms, and {MOST_STEP_MS} ms are allowed"
        yield from (f"the console has: {text}" for text in self.complaints)


@click.command(help=__doc__)
@click.argument("page", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--steps", default=5, show_default=True, help="Steps with each button from each quarter of the run."
)
@click.option(
    "--screenshots",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write a picture of each window into DIR.",
)
@reports_errors
def main(page: Path, steps: int, screenshots: Path | None) -> None:
    megabytes = page.stat().st_size / 1e6
    faults = [f"{megabytes:.1f} MB, and {MOST_MB} MB are allowed"] if megabytes > MOST_MB else []
    click.echo(f"{page}: {megabytes:.2f} MB")
    if screenshots:
        screenshots.mkdir(parents=True, exist_ok=True)
    with chromium() as browser:
        for width, scheme in product(WIDTHS, SCHEMES):
            picture = screenshots / f"{width}_{scheme}.png" if screenshots else None
            opening = measured(browser, page, width, scheme, steps, picture)
            click.echo(opening.text())
            faults += opening.faults()
    for fault in faults:
        click.echo(fault)
    sys.exit(1 if faults else 0)


def measured(browser: Any, page: Path, width: int, scheme: str, steps: int, picture: Path | None) -> Opening:
    """Open a page in a window, step, and write a picture of the beginning if asked."""
    complaints: list[str] = []
    tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab.on("console", lambda note: note.type in ("warning", "error") and complaints.append(note.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    begin = perf_counter()
    tab.goto(page.resolve().as_uri())
    tab.wait_for_selector("html[data-ready]")
    ready_s = perf_counter() - begin
    if picture:
        tab.screenshot(path=str(picture), full_page=True)
    steps_ms = tab.evaluate(STEPS, [QUARTERS, steps, REPEATS])
    tab.close()
    return Opening(width, scheme, ready_s, tuple(steps_ms), tuple(complaints))


if __name__ == "__main__":
    main()
