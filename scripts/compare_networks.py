#!/usr/bin/env python3
"""Compile networks for several configurations, and compare launches, cycles and outputs with earlier results.

A change of the compiler must not change what networks compute, and should not cost cycles. `measure` writes a
line for each network and configuration into FILE: launches, cycles on the cycle simulator by the compiler's
default choices, and a digest of the outputs for random inputs. It continues a FILE that is there. `compare`
reads two such files. Exit status 1 if outputs differ, launches are more, cycles of a network are more than
0.3 % more, or their sum is more.
"""

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path

import click
import msgspec
import numpy as np

import vdla
from vdla.compiler.codegen.tuned.best_records import NONE
from vdla.hw.spec.presets import DEFAULT, SMALL, TINY
from vdla.hw.spec.target import Target
from vdla.runtime.module.plan import random_inputs

MODELS = Path(__file__).parent.parent / "build" / "models"
CONFIGS = {
    "default": DEFAULT,
    "16x8": DEFAULT.with_changes(name="16x8", block_out=8),
    "32x16": DEFAULT.with_changes(name="32x16", block_in=32),
    "batch4": DEFAULT.with_changes(name="batch4", batch=4),
    "small": SMALL,
    "tiny": TINY,
}
MOST_MORE = 0.003  # share by which the cycles of one network may grow


class Row(msgspec.Struct, frozen=True):
    """What is compared of a network on a configuration.

    Attributes:
        outputs: digest of the outputs; "" where the network cannot be compiled for the configuration.
    """

    network: str
    config: str
    launches: int
    cycles: int
    outputs: str


@dataclass(frozen=True)
class Pair:
    """The same network and configuration, before and after."""

    before: Row
    after: Row

    def fault(self) -> str:
        """Return what is wrong; "" if nothing is."""
        before, after = self.before, self.after
        name = f"{after.network} on {after.config}"
        if before.outputs != after.outputs:
            return f"{name}: other outputs"
        if after.launches > before.launches:
            return f"{name}: {before.launches} launches, now {after.launches}"
        if after.cycles > before.cycles * (1 + MOST_MORE):
            change = after.cycles / before.cycles - 1
            return f"{name}: {before.cycles:,} cycles, now {after.cycles:,} ({change:+.2%})"
        return ""


def row_of(path: Path, config: str) -> Row:
    """Compile a network for a configuration and run it."""
    name = path.stem.removesuffix("_int8")
    module = vdla.compile(path, Target(CONFIGS[config]), tuning=NONE)
    run = module.run(random_inputs(module.plan.inputs), "cycle")
    digest = hashlib.sha256()
    for key, value in sorted(run.outputs.items()):
        digest.update(key.encode() + np.ascontiguousarray(value).tobytes())
    return Row(name, config, run.summary.launches, run.summary.cycles or 0, digest.hexdigest())


def rows_of(file: Path) -> dict[tuple[str, str], Row]:
    """Return the rows of a file by network and configuration; none where there is no file."""
    lines = file.read_text().splitlines() if file.exists() else []
    rows = [msgspec.json.decode(line, type=Row) for line in lines]
    return {(row.network, row.config): row for row in rows}


@click.group(help=__doc__)
def main() -> None:
    pass


@main.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("models", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--config", "configs", multiple=True, type=click.Choice(list(CONFIGS)), help="All by default.")
def measure(file: Path, models: tuple[Path, ...], configs: tuple[str, ...]) -> None:
    """Write the rows of MODELS (by default the networks of build/models) into FILE."""
    paths = models or tuple(sorted(MODELS.glob("*_int8.onnx")))
    if not paths:
        raise click.ClickException(
            "build/models holds no models; make them with scripts/make_models.py, or name others"
        )
    known = rows_of(file)
    for config in configs or CONFIGS:
        for path in paths:
            if (path.stem.removesuffix("_int8"), config) in known:
                continue
            row = row_of(path, config)
            with file.open("a") as out:
                out.write(msgspec.json.encode(row).decode() + "\n")
            click.echo(f"{row.network:20}{row.config:10}{row.launches:5}{row.cycles:15,}  {row.outputs[:12]}")


@main.command()
@click.argument("before", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("after", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def compare(before: Path, after: Path) -> None:
    """Compare the rows that are in both files."""
    old, new = rows_of(before), rows_of(after)
    pairs = [Pair(old[key], new[key]) for key in new if key in old]
    if not pairs:
        raise click.ClickException(f"{before} and {after} have no network and configuration in common")
    faults = [fault for pair in pairs if (fault := pair.fault())]
    for fault in faults:
        click.echo(fault)
    sums = [sum(getattr(pair, side).cycles for pair in pairs) for side in ("before", "after")]
    fewer = sum(pair.after.cycles < pair.before.cycles for pair in pairs)
    more = sum(pair.after.cycles > pair.before.cycles for pair in pairs)
    click.echo(
        f"{len(pairs)} pairs: {len(faults)} worse; cycles {sums[0]:,} and now {sums[1]:,} "
        f"({sums[1] / sums[0] - 1:+.3%}), fewer in {fewer}, more in {more}"
    )
    sys.exit(1 if faults or sums[1] > sums[0] else 0)


if __name__ == "__main__":
    main()
