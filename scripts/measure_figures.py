#!/usr/bin/env python3
"""Measure the figures of the documentation that are stale, and write them into the pages.

docs/figures.toml declares the commands, and docs/figures.json keeps what they printed. A figure is stale
where the sources that decide it have changed. Figures that are declared as dated are measured where NAMEs or
--dated ask for them.
"""

import sys

import click
from figures.declared import measurements
from figures.pages import paths, rendered
from figures.store import MeasureError, measure, read_store, stale, write_store

from vdla.hw.spec.writing import write_text


@click.command(help=__doc__)
@click.argument("names", nargs=-1)
@click.option("--dated", is_flag=True, help="Measure everything that is declared as dated, too.")
@click.option("--check", is_flag=True, help="Only report; exit 1 where a figure or page is stale.")
def main(names: tuple[str, ...], dated: bool, check: bool) -> None:
    declared, outputs = measurements(), read_store()
    unknown = sorted(set(names) - set(declared))
    if unknown:
        raise click.UsageError(f"docs/figures.toml declares no {', '.join(unknown)}")
    due = {measurement.name for measurement in stale(declared, outputs)} | set(names)
    due |= {measurement.name for measurement in declared.values() if dated and measurement.dated}
    prepared: set[str] = set()
    for name in (name for name in declared if name in due and not check):
        click.echo(f"{name}: {declared[name].command}", err=True)
        try:
            outputs[name] = measure(declared[name], declared, prepared)
        except MeasureError as error:
            raise click.ClickException(str(error)) from error
        write_store(outputs)
    pages = {path: rendered(path.read_text(), declared, outputs) for path in paths()}
    changed = [path for path, text in pages.items() if path.read_text() != text]
    for path in changed:
        if not check:
            write_text(path, pages[path])
        click.echo(f"{path.name} {'is stale: run make figures' if check else 'written'}")
    for name in sorted(due) if check else ():
        click.echo(f"{name} is stale: run make figures")
    sys.exit(1 if check and (due or changed) else 0)


if __name__ == "__main__":
    main()
