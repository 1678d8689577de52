#!/usr/bin/env python3
"""Compare cycles of the simulator with cycles of the AXI top in front of LiteDRAM.

LiteDRAM's controller and its model of the SDRAM run in Verilator. The parameters of the simulator's model are
LiteDRAM's settings for the part at the clock: nothing is fitted. Random programs and GEMMs run on both. DRAM
and every counter must be the same afterwards. Exit status 1 if cycles of a
program differ by more than --most percent, or DRAM or a counter differs.
"""

import json
import random
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click
from generators.programs import IMAGE_BYTES, random_program
from sdram.device import LiteDramDevice, System

from vdla.boards.sdram import parameters_at
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.presets import preset
from vdla.hw.spec.writing import write_text
from vdla.runtime.device import Device
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.workloads import place_gemm, plan_gemm, random_operands

DRAM_BYTES = 4 * IMAGE_BYTES
GEMMS = (
    (16, 16, 16),
    (64, 64, 64),
    (64, 64, 256),
    (256, 64, 64),
    (32, 256, 128),
    (128, 128, 128),
    (8, 512, 64),
)
AXI_ADDRESS_BITS = 32
PERCENT = 100


@dataclass(frozen=True)
class Row:
    """A program on both devices.

    Attributes:
        reference: cycles on the reference memory.
        predicted: cycles of the simulator.
        measured: cycles of the AXI top in front of LiteDRAM.
        same: DRAM and every counter are the same.
    """

    program: str
    reference: int
    predicted: int
    measured: int
    same: bool

    @property
    def percent(self) -> float:
        """By how much the prediction differs."""
        return PERCENT * (self.predicted - self.measured) / self.measured


def rows_of(devices: dict[str, Device], config: AcceleratorConfig, programs: int) -> Iterator[Row]:
    """Yield the rows of `programs` random programs, and of the GEMMs."""
    for seed in range(programs):
        program = random_program(config, seed, random.Random(seed).randint(5, 100))
        runs = {name: program.run_on(device) for name, device in devices.items()}
        yield _row(f"random {seed}", {name: (run[0], run[1].tobytes()) for name, run in runs.items()})
    for rows, columns, depth in GEMMS:
        plan = plan_gemm(config, rows, columns, depth)
        results = {}
        for name, device in devices.items():
            device.reset()
            run = place_gemm(device, plan, *random_operands(plan))
            result = run.run()
            results[name] = (result, run.output().tobytes())
        yield _row(f"GEMM {rows}x{columns}x{depth}", results)


def _row(name: str, runs: dict[str, tuple]) -> Row:
    (reference, _), (predicted, model), (measured, truth) = (
        runs[device] for device in ("reference", "model", "litedram")
    )
    same = model == truth and dict(predicted.counters) == dict(measured.counters)
    return Row(name, reference.cycles, predicted.cycles, measured.cycles, same)


def table(rows: list[Row]) -> str:
    """Return the rows as text."""
    lines = [f"{'program':18} {'reference':>10} {'predicted':>10} {'LiteDRAM':>10} {'difference':>11}  DRAM"]
    lines += [
        f"{row.program:18} {row.reference:10,} {row.predicted:10,} {row.measured:10,} {row.percent:10.3f}%  "
        f"{'same' if row.same else 'DIFFERS'}"
        for row in rows
    ]
    worst = max(abs(row.percent) for row in rows)
    exact = sum(row.predicted == row.measured for row in rows)
    lines.append(f"{len(rows)} programs: {exact} equal, largest difference {worst:.3f} %")
    return "\n".join(lines)


@click.command(help=__doc__)
@click.option("--config", default="small", show_default=True, help="preset")
@click.option("--part", default="MT48LC16M16", show_default=True, help="LiteDRAM's name of the SDRAM")
@click.option("--clock", default=50.0, show_default=True, help="MHz")
@click.option("--programs", default=50, show_default=True, help="random programs")
@click.option(
    "--phase", default=0, show_default=True, help="cycles of the refresh timer before a run: 0, or 2 on"
)
@click.option("--most", default=2.0, show_default=True, help="percent by which cycles may differ")
@click.option("--output", type=click.Path(path_type=Path), help="write the rows there, as JSON")
def main(
    config: str, part: str, clock: float, programs: int, phase: int, most: float, output: Path | None
) -> None:
    accelerator = preset(config).with_changes(axi_address_bits=AXI_ADDRESS_BITS)
    memory = parameters_at(part, clock)
    try:
        devices = {
            "reference": CycleDevice(accelerator, DRAM_BYTES),
            "model": CycleDevice(accelerator, DRAM_BYTES, replace(memory, refresh_phase=phase)),
            "litedram": LiteDramDevice(System(accelerator, part, clock), DRAM_BYTES, phase),
        }
        rows = list(rows_of(devices, accelerator, programs))
    except VdlaError as error:
        raise click.ClickException(str(error)) from error
    click.echo(table(rows))
    if output is not None:
        document = {"config": config, "part": part, "clock_mhz": clock, "rows": [asdict(row) for row in rows]}
        write_text(output, json.dumps(document, indent=1) + "\n")
    sys.exit(any(abs(row.percent) > most or not row.same for row in rows))


if __name__ == "__main__":
    main()
