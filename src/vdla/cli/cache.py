"""``vdla cache``."""

import json
import shutil
from pathlib import Path

import click

from vdla.cli._options import reports_errors
from vdla.hw.spec.cache import cache_folder
from vdla.hw.spec.errors import ToolError

KINDS = {
    "choices.sqlite": "choices of tiles",
    "area": "areas",
    "rtl": "compiled RTL",
    "verilated": "Verilator's runtime",
    "verilog": "Verilog",
}


@click.group()
def command() -> None:
    """Show or empty the folder in which the kit keeps what takes time to make.

    The folder is VDLA_CACHE_DIR, else `vdla` in XDG_CACHE_HOME or ~/.cache.
    """


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reports_errors
def show(as_json: bool) -> None:
    """Say where the cache is, and how much of each kind it holds."""
    folder = cache_folder()
    sizes = {name: _size(folder / name) for name in KINDS}
    if as_json:
        click.echo(json.dumps({"folder": str(folder), "bytes": sizes}, indent=1))
        return
    rows = [f"  {size / 2**20:9.2f} MiB  {KINDS[name]}" for name, size in sizes.items()]
    click.echo("\n".join([str(folder), *rows, f"  {sum(sizes.values()) / 2**20:9.2f} MiB  in all"]))


@command.command()
@reports_errors
def clear() -> None:
    """Delete what the cache holds; files that the kit did not put there stay."""
    folder = cache_folder()
    for name in KINDS:
        _delete(folder / name)
    click.echo(f"{folder}: emptied")


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def _delete(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise ToolError(f"{path} cannot be deleted: {error.strerror}") from error
