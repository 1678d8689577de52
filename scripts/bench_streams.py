#!/usr/bin/env python3
"""Measure emission and verification of streams from a compiled convolution, in instructions per second."""

import json
import time
from collections.abc import Callable

import click
import numpy as np
from bench_sim import chain

from vdla.compiler.codegen.stream import compile_stream
from vdla.compiler.codegen.tiles import Tiles
from vdla.compiler.tasks.convolution import schedule_conv2d
from vdla.compiler.te.operators.convolution import conv2d
from vdla.compiler.te.operators.narrowing import Scale
from vdla.compiler.te.operators.sizes import Convolution
from vdla.hw.spec.presets import DEFAULT
from vdla.sim.decoded import decode_stream
from vdla.sim.verify.verifier import findings

SMALL_TILES = Tiles(outputs=1, rows=4, columns=14, inputs=1)
SIZES = {
    "10^4": Convolution(128, 56, 56, 128, padding=(1, 1, 1, 1)),
    "10^5": Convolution(384, 56, 56, 384, padding=(1, 1, 1, 1)),
    "10^6": Convolution(1216, 56, 56, 1216, padding=(1, 1, 1, 1)),
}
LENGTHS = {"10^4": 10**4, "10^5": 10**5, "10^6": 10**6}


def seconds(work: Callable[[], object]) -> tuple[float, object]:
    """Return the time of a call, and what it returned."""
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def emission(size: Convolution) -> dict:
    """Return the figures of emitting one convolution in small tiles: passes, hardware loops, tokens
    and encoding; schedule and lowering not included."""
    func = schedule_conv2d(conv2d(size, DEFAULT, Scale()), size, DEFAULT, tiles=SMALL_TILES).lower()
    spent, stream = seconds(lambda: compile_stream(func, DEFAULT))
    return {"what": "emission", "instructions": stream.count, "seconds": spent}


def verification(length: int) -> dict:
    """Return the figures of verifying a chain of LOAD, GEMM, ALU and STORE, decoding included."""
    image = np.zeros(1 << 20, np.uint8)
    data = chain(length, 0, len(image) // 2)
    stream = np.frombuffer(data, np.uint8).reshape(-1, DEFAULT.instruction_bytes)
    spent, _ = seconds(lambda: findings(decode_stream(stream, DEFAULT), image, filled=True))
    return {"what": "verification", "instructions": len(stream), "seconds": spent}


@click.command(help=__doc__)
@click.option("--json", "as_json", is_flag=True)
def main(as_json: bool) -> None:
    verification(1000)  # compiles the verifier,
    emission(SIZES["10^4"])  # and what finds conflicts
    rows = [
        *(emission(size) for size in SIZES.values()),
        *(verification(length) for length in LENGTHS.values()),
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        rate = row["instructions"] / row["seconds"]
        click.echo(
            f"{row['what']:14} {row['instructions']:9,} instructions {row['seconds']:8.3f} s "
            f"{rate:12,.0f} a second"
        )


if __name__ == "__main__":
    main()
