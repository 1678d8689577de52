"""``vdla cache``."""

import json
from contextlib import suppress
from pathlib import Path

import click

from vdla.cli._options import reports_errors
from vdla.hw.spec.cache import FOLDER, cache_folder
from vdla.hw.spec.errors import ToolError
from vdla.hw.spec.showing import short

LONGEST_NAME = 4096
BUILT = {
    "area": "areas",
    "clock": "clocks",
    "netlist": "synthesised netlists",
    "rtl": "compiled RTL",
    "verilated": "Verilator's runtime",
    "verilog": "Verilog",
}
WRITTEN = {
    "choices": "choices of tiles",
    "graphs": "imported networks",
    "hardware": "digests of the hardware",
    "native_code": "native code of the functional model",
    "machine_code": "compiled simulator and verifier",
    "modules": "compiled networks",
    "silicon": "measured areas and clocks",
    "summaries": "summaries of compiled networks",
    "verified": "digests of verified streams",
}
KINDS = {**BUILT, **WRITTEN}


@click.group()
def command() -> None:
    """Show or empty the cache of build products.

    The folder is VDLA_CACHE_DIR, else `vdla` in XDG_CACHE_HOME or ~/.cache.
    """


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reports_errors
def show(as_json: bool) -> None:
    """Show where the cache is and how much it holds of each kind."""
    folder = _folder()
    try:
        sizes = {name: _size(folder / name) for name in KINDS}
    except OSError as error:
        raise ToolError(f"{short(str(error.filename or folder))} cannot be read: {error.strerror}") from error
    if as_json:
        click.echo(json.dumps({"folder": str(folder), "bytes": sizes}, indent=1))
        return
    rows = [f"  {size / 2**20:9.2f} MiB  {KINDS[name]}" for name, size in sizes.items()]
    total = f"  {sum(sizes.values()) / 2**20:9.2f} MiB  in all"
    click.echo("\n".join([short(str(folder), LONGEST_NAME), *rows, total]))


@command.command()
@reports_errors
def clear() -> None:
    """Delete the contents of the cache.

    Files that the kit did not put there stay, and so do entries that other processes are building.
    """
    from vdla.runtime.devices.rtl import cache

    folder = _folder()
    try:
        held = sum(map(cache.clear, BUILT))
        for name in WRITTEN:
            _delete(folder / name)
    except OSError as error:
        raise ToolError(f"{error.filename or folder} cannot be deleted: {error.strerror}") from error
    rest = f", but for {held} entries that others are building" * (held > 0)
    click.echo(f"{short(str(folder), LONGEST_NAME)}: emptied{rest}")


def _folder() -> Path:
    try:
        return cache_folder()
    except OSError as error:
        raise ToolError(f"there is no cache: {error.strerror}; name a folder with {FOLDER}") from error


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def _delete(path: Path) -> None:
    """Delete a folder of files that are written atomically, while other processes may add more."""
    for file in sorted(path.rglob("*"), reverse=True):
        if file.is_dir() and not file.is_symlink():
            with suppress(OSError):  # another process has written into it
                file.rmdir()
        else:
            file.unlink(missing_ok=True)
    with suppress(OSError):
        path.rmdir()
