#!/usr/bin/env python3
"""Write the generated pages of docs/. With --check, only report stale pages."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import click
from messages.page import messages_page

from vdla.compiler.network.support import page as operators_page
from vdla.explore.silicon.pages import area_page, timing_page
from vdla.hw.spec.reference import PAGES
from vdla.hw.spec.writing import write_text

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
EXAMPLES = ("matrix_multiply", "virtual_threads")
GENERATED = "<!-- Generated from examples/ by `make docs`. -->\n"
INTRODUCTION = """\
This page shows two programs after each step of their schedules. It is for people who write schedules or read
the compiler's output. [compiler.md](compiler.md) explains the steps. Each example prints these texts and
compares its result with NumPy: `python examples/matrix_multiply.py`.

"""


def example(name: str) -> ModuleType:
    """Return an example as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def schedules_page() -> str:
    """Return the page that shows the examples stage by stage."""
    parts = [GENERATED, "# Schedules, step by step\n", INTRODUCTION]
    for name in EXAMPLES:
        module = example(name)
        parts.append(f"## examples/{name}.py\n{module.__doc__.strip()}\n\n")
        parts += [f"{title}\n```python\n{text}```\n" for title, text in module.pages()]
    return "".join(parts)


def pages() -> dict[str, str]:
    """Return every generated page, by file name."""
    return {
        **{name: page() for name, page in PAGES.items()},
        "area.md": area_page(),
        "messages.md": messages_page(),
        "operators.md": operators_page(),
        "schedules.md": schedules_page(),
        "timing.md": timing_page(ROOT / "examples" / "sweeps" / "clock.toml"),
    }


@click.command(help=__doc__)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 when a page is stale.")
def main(check: bool) -> None:
    stale = {
        name: text
        for name, text in pages().items()
        if not (DOCS / name).exists() or (DOCS / name).read_text() != text
    }
    for name, text in stale.items():
        if not check:
            write_text(DOCS / name, text)
        click.echo(f"docs/{name} {'is stale: run make docs' if check else 'written'}")
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    main()
