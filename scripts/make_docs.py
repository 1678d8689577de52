#!/usr/bin/env python3
"""Write the generated pages of docs/; with --check, only say whether they are as they should be."""

import sys
from pathlib import Path

import click

from vdla.hw.spec.reference import PAGES

DOCS = Path(__file__).parent.parent / "docs"


@click.command(help=__doc__)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 when a page is stale.")
def main(check: bool) -> None:
    stale = [name for name, page in PAGES.items() if not (DOCS / name).exists() or (DOCS / name).read_text() != page()]
    for name in stale:
        if not check:
            (DOCS / name).write_text(PAGES[name]())
        click.echo(f"docs/{name} {'is stale: run make docs' if check else 'written'}")
    sys.exit(1 if check and stale else 0)


if __name__ == "__main__":
    main()
