#!/usr/bin/env python3
"""Run the commands that the pages of the documentation show, page by page.

Commands stand in fenced blocks without a language. They run in a temporary folder with the folders of the
repository. Pages whose commands write files for other pages come first. `NOT_RUN` names the commands that are
left out, each with its reason. Exit status 1 if a command fails.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from page_blocks import blocks

from vdla.runtime.arrays import write_npz

ROOT = Path(__file__).resolve().parents[1]
FIRST = ("README.md", "docs/networks.md")
"""Pages whose commands write files that commands of other pages read."""

TESTED = ("docs/from_pytorch.md", "docs/from_vta.md", "docs/export.md")
"""Pages whose commands a test of tests/docs runs."""

ONE_EXPECTED = "--stream-patch"
"""Option of commands whose exit status is 1: the proof of a broken stream."""

COMMAND = re.compile(r"(?:\$ )?(?P<line>(?:vdla|python|make|echo|scripts/\w+\.py) .*|scripts/\w+\.py)$")
LINKED = ("ARCHITECTURE.md", "docs", "examples", "scripts", "src", "tests")
NOT_RUN = {
    r"--device board": "tests/cli/test_board.py and tests/boards/test_simulated.py run boards",
    r"make (env|demo|test|lint|docs|site)\b": "continuous integration runs it, or a test",
    r"vdla serve|remote://": "tests/runtime/devices/remote and tests/cli/test_serve.py run a server",
    r"secrets\.token_urlsafe": "it appends to a file of tokens",
    r"--cluster": "it needs a Dask scheduler",
    r"^vdla (build|flash)|^scripts/build_boards\.py": "docs/boards.json holds the result; minutes to hours",
    r"^scripts/(prove_networks|break_streams|break_compiler)\.py": "docs/figures.json holds its result",
}
"""Patterns of commands that are not run, with the reasons."""

BEFORE = (
    "vdla compile build/models/resnet18_int8.onnx --config small -o build/resnet18_small.vdla",
    "vdla sweep examples/sweeps/gemm_core.toml -o build/before",
    "vdla sweep examples/sweeps/gemm_core.toml -o build/after",
    "vdla sweep examples/sweeps/gemm_core.toml -o build/sweeps/networks",
    "cp build/models/resnet18_int8.onnx resnet18_int8.onnx",
    "echo path > commands",
)
"""Commands that make what pages presuppose: files that a reader already has."""


class PageCommand(NamedTuple):
    """A command of a page.

    Attributes:
        page: its path from the root.
        line: as a shell takes it.
    """

    page: str
    line: str

    @property
    def reason(self) -> str:
        """Why it is not run; empty where it is."""
        if self.page in TESTED:
            return "a test of tests/docs runs it"
        return next((reason for pattern, reason in NOT_RUN.items() if re.search(pattern, self.line)), "")


def commands_of(page: str, text: str) -> Iterator[PageCommand]:
    """Yield the commands in the fenced blocks of a page's text."""
    for block in blocks(text):
        for line in block.text.splitlines() if not block.language else ():
            if match := COMMAND.match(line):
                yield PageCommand(page, match["line"])


def all_commands() -> list[PageCommand]:
    """Return the commands of all pages, the commands of `FIRST` first."""
    paths = (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.md"))
    names = sorted(str(path.relative_to(ROOT)) for path in paths)
    names.sort(key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    return [each for name in names for each in commands_of(name, (ROOT / name).read_text())]


def prepare(folder: Path) -> None:
    """Give a folder what a checkout has, and the inputs that pages presuppose."""
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)
    (folder / "build").mkdir()
    (folder / "build" / "models").symlink_to(ROOT / "build" / "models")
    image = np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype(np.float32)
    write_npz(folder / "inputs.npz", {"image": image})


def run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder as a person types it."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {**os.environ, "PATH": path}
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@click.command()
@click.option("--match", default="", metavar="TEXT", help="Run the commands of pages whose path has TEXT.")
def main(match: str) -> None:
    """Run the commands that the pages show; exit status 1 if any fails."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="vdla-pages-") as name:
        folder = Path(name)
        prepare(folder)
        for each in in_order([each for each in all_commands() if match in each.page]):
            failed += not each.reason and not _succeeds(each, folder)
            if each.reason:
                click.echo(f"{each.page:24} not run  {each.line}: {each.reason}")
    sys.exit(bool(failed))


def in_order(commands: list[PageCommand]) -> Iterator[PageCommand]:
    """Yield the commands of the first pages, the commands of `BEFORE`, and the others."""
    yield from (each for each in commands if each.page in FIRST)
    yield from (PageCommand("(preparation)", line) for line in BEFORE)
    yield from (each for each in commands if each.page not in FIRST)


def _succeeds(command: PageCommand, folder: Path) -> bool:
    """Run a command, and print how it ended."""
    began = time.monotonic()
    done = run(command.line, folder)
    succeeds = done.returncode == (ONE_EXPECTED in command.line)
    verdict = "ok" if succeeds else f"exit {done.returncode}"
    click.echo(f"{command.page:24} {verdict:8} {time.monotonic() - began:6.1f} s  {command.line}")
    if not succeeds:
        click.echo(done.stderr[-2000:])
    return succeeds


if __name__ == "__main__":
    main()
