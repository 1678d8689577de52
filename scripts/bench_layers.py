#!/usr/bin/env python3
"""Measure the convolutions of ResNet-18 against the roofline, with and without virtual threads.

The cycle simulator counts cycles for the default configuration and the reference memory, in int8, with
requantisation and stores. The roofline of a layer is max(MACs / multipliers, bytes that must move /
bytes per cycle), with each byte counted once. Exit status 1 if a requirement is missed.
"""

import json
import sys
from dataclasses import dataclass
from math import prod
from pathlib import Path

import click
import numpy as np

from vdla.cli._options import reports_errors
from vdla.compiler.codegen.choose import simulated_cycles
from vdla.compiler.codegen.estimate import ranked_tiles
from vdla.compiler.codegen.stream import compile_stream
from vdla.compiler.codegen.tiles import Tiles, TilingProblem
from vdla.compiler.tasks.base import Choice
from vdla.compiler.tasks.convolution import ConvolutionTask, schedule_conv2d
from vdla.compiler.te.operators.convolution import blocked_weights, conv2d
from vdla.compiler.te.operators.narrowing import Scale, blocked_parameters
from vdla.compiler.te.operators.sizes import Convolution
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.extras import require_package
from vdla.hw.spec.presets import preset
from vdla.hw.spec.target import Target
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.layout import blocked, unblocked
from vdla.runtime.requantise import parameter_words, requantise
from vdla.runtime.session.launch import place

REQUIRED = {(3, 3): 0.90, (1, 1): 0.78}
REQUIRED_MEAN = 0.88


def layer(side: int, channels: int, outputs: int, kernel: int, stride: int) -> Convolution:
    """Return a square convolution with "same" padding."""
    return Convolution(channels, side, side, outputs, (kernel, kernel), (stride, stride), (kernel // 2,) * 4)


CANDIDATES = 64  # tiles that are simulated for a layer
LAYERS = {  # numbered as in table 2 of the TVM paper, OSDI 2018
    "C2": layer(56, 64, 64, 3, 1),
    "C3": layer(56, 64, 64, 1, 1),
    "C4": layer(56, 64, 128, 3, 2),
    "C5": layer(56, 64, 128, 1, 2),
    "C6": layer(28, 128, 128, 3, 1),
    "C7": layer(28, 128, 256, 3, 2),
    "C8": layer(28, 128, 256, 1, 2),
    "C9": layer(14, 256, 256, 3, 1),
    "C10": layer(14, 256, 512, 3, 2),
    "C11": layer(14, 256, 512, 1, 2),
    "C12": layer(7, 512, 512, 3, 1),
}


@dataclass(frozen=True)
class Row:
    """One layer's figures."""

    name: str
    roofline: int
    cycles: dict[int, int]  # by virtual threads
    correct: bool

    def fraction(self, threads: int) -> float:
        """Return the fraction of the roofline."""
        return self.roofline / self.cycles[threads]


def compulsory_bytes(size: Convolution) -> int:
    """Return the bytes of the input pixels that are used, of the weights and of the outputs, each once."""
    used = prod(
        -(-side // stride) if kernel == 1 else side
        for side, stride, kernel in zip((size.height, size.width), size.stride, size.kernel, strict=True)
    )
    return (
        size.channels * used
        + size.channels * size.outputs * prod(size.kernel)
        + size.outputs * prod(size.out_size)
    )


def roofline(size: Convolution, config: AcceleratorConfig) -> int:
    """Return the cycles that no schedule can undercut."""
    return max(size.macs // config.macs_per_cycle, compulsory_bytes(size) // config.bus_bytes)


def reference(inp: np.ndarray, wgt: np.ndarray, words: np.ndarray, size: Convolution) -> np.ndarray:
    """Return int8[o, oh, ow]: the layer of int8[c, h, w], int8[o, c, kh, kw] and parameters int[4, o] in
    NumPy."""
    (top, left, below, right), (sy, sx), (height, width) = size.padding, size.stride, size.out_size
    padded = np.pad(inp, ((0, 0), (top, below), (left, right))).astype(np.float64)
    total = np.zeros((size.outputs, height, width))
    for dy in range(size.kernel[0]):
        for dx in range(size.kernel[1]):
            window = padded[:, dy : dy + (height - 1) * sy + 1 : sy, dx : dx + (width - 1) * sx + 1 : sx]
            total += np.tensordot(wgt[:, :, dy, dx].astype(np.float64), window, 1)
    return requantise(total.astype(np.int64), words[:, :, None, None])


def measure(name: str, size: Convolution, config: AcceleratorConfig, threads: tuple[int, ...]) -> Row:
    """Run one layer on random data with each number of virtual threads."""
    rng = np.random.default_rng(0)
    inp = rng.integers(-128, 128, (size.channels, size.height, size.width), np.int8)
    wgt = rng.integers(-128, 128, (size.outputs, size.channels, *size.kernel), np.int8)
    words = parameter_words(
        rng.integers(-1000, 1000, size.outputs),
        rng.integers(1 << 15, 1 << 16, size.outputs),
        np.full(size.outputs, 24),
    )
    expected = reference(inp, wgt, words, size)
    results = {count: run(inp, wgt, words, size, config, count) for count in threads}
    return Row(
        name,
        roofline(size, config),
        {count: cycles for count, (cycles, _) in results.items()},
        all(np.array_equal(out, expected) for _, out in results.values()),
    )


def best_tiles(size: Convolution, config: AcceleratorConfig, threads: int) -> Tiles:
    """Return the tiles with the fewest simulated cycles among the `CANDIDATES` with the best estimates."""
    task, target = ConvolutionTask(size), Target(config)
    return min(
        ranked_tiles(TilingProblem(size, config, threads, scales=True), CANDIDATES, distinct=True),
        key=lambda tiles: simulated_cycles(task, Choice(threads, tiles), target),
    )


def run(
    inp: np.ndarray,
    wgt: np.ndarray,
    words: np.ndarray,
    size: Convolution,
    config: AcceleratorConfig,
    threads: int,
) -> tuple[int, np.ndarray]:
    """Return the cycles of a layer and its result, int8[o, oh, ow]."""
    operator = conv2d(size, config, Scale())
    schedule = schedule_conv2d(
        operator,
        size,
        config,
        threads=threads,
        tiles=best_tiles(size, config, threads),
    )
    stream = compile_stream(schedule.lower(), config)
    given = {
        "X": blocked(inp[None], config.block_in, config.batch),
        "W": blocked_weights(wgt, size, config),
        "P": blocked_parameters(words, config),
    }
    launch = place(
        CycleDevice(config),
        stream,
        {name: values.nbytes for name, values in given.items()} | {"Z": operator.out.buffer.size},
    )
    for name, values in given.items():
        launch.write(name, values)
    cycles = launch.run().cycles
    return cycles, unblocked(launch.read("Z", operator.out.shape, np.int8)[:, 0], 1, size.outputs)[0]


def verdict(rows: list[Row], threads: int) -> dict[str, bool]:
    """Return whether each requirement is met."""
    fractions = {row.name: row.fraction(threads) for row in rows}
    met = {
        f"{name} at least {REQUIRED[LAYERS[name].kernel]:.0%}": fractions[name]
        >= REQUIRED[LAYERS[name].kernel]
        for name in fractions
    }
    mean = float(np.exp(np.mean(np.log(list(fractions.values())))))
    return met | {
        f"geometric mean {mean:.1%}, at least {REQUIRED_MEAN:.0%}": mean >= REQUIRED_MEAN,
        "results exact": all(row.correct for row in rows),
    }


@click.command(help=__doc__)
@click.option("--config", "name", default="default", show_default=True)
@click.option("--plot", type=click.Path(path_type=Path), help="Write the roofline as PNG or SVG too.")
@click.option("--json", "as_json", is_flag=True)
@reports_errors
def main(name: str, plot: Path | None, as_json: bool) -> None:
    if plot:
        require_package("matplotlib", "a roofline")
    config, threads = preset(name), (1, 2)
    rows = [measure(label, size, config, threads) for label, size in LAYERS.items()]
    met = verdict(rows, threads[-1])
    if as_json:
        json_rows = [
            {"layer": row.name, "roofline": row.roofline, "cycles": row.cycles, "correct": row.correct}
            for row in rows
        ]
        click.echo(json.dumps(json_rows, indent=1))
    else:
        click.echo("layer   roofline   1 thread          2 threads         tiles")
        for row in rows:
            columns = "   ".join(f"{row.cycles[count]:9,} {row.fraction(count):6.1%}" for count in threads)
            click.echo(
                f"{row.name:5} {row.roofline:10,}  {columns}   {best_tiles(LAYERS[row.name], config, 2)}"
            )
        click.echo("\n".join(f"{'ok   ' if ok else 'SHORT'} {text}" for text, ok in met.items()))
    if plot:
        _plot(rows, config, threads, plot)
    sys.exit(0 if all(met.values()) else 1)


def _plot(rows: list[Row], config: AcceleratorConfig, threads: tuple[int, ...], path: Path) -> None:
    from vdla.sim.plots.files import save
    from vdla.sim.plots.roofline import Point
    from vdla.sim.plots.roofline import roofline as draw

    series = {
        f"{count} virtual thread{'s' * (count > 1)}": [
            Point(row.name, LAYERS[row.name].macs, compulsory_bytes(LAYERS[row.name]), row.cycles[count])
            for row in rows
        ]
        for count in threads
    }
    save(draw(series, config), path)


if __name__ == "__main__":
    main()
