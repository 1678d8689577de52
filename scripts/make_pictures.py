#!/usr/bin/env python3
"""Write the pictures of docs/simulator.md: roofline, utilisation and a timeline of GEMMs.

The configuration is `default`.
"""

from itertools import product
from pathlib import Path

import click

from vdla.cli._options import needs
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.target import Target
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.workloads import place_gemm, plan_gemm, random_operands
from vdla.sim.timing.result import Timing

SIZES = (
    (64, 64, 64),
    (128, 128, 128),
    (256, 256, 256),
    (512, 512, 512),
    (1024, 1024, 1024),
    (1024, 64, 64),
    (64, 1024, 64),
    (64, 64, 1024),
    (128, 1024, 64),
    (256, 1024, 64),
    (1024, 256, 256),
)
SHOWN = ((64, 64, 1024), (256, 256, 256), (1024, 1024, 1024))
DRAWN = (256, 64, 512)
PICTURES = Path(__file__).parents[1] / "docs" / "pictures"


def timing_of(m: int, n: int, k: int) -> Timing:
    """Return when everything of a GEMM happens, with a log."""
    device = CycleDevice(DEFAULT, arithmetic=False, log=True)
    plan = plan_gemm(DEFAULT, m, n, k)
    place_gemm(device, plan, *random_operands(plan)).run()
    return device.timing


@click.command(help=__doc__)
@click.option(
    "--output", type=click.Path(file_okay=False, path_type=Path), default=PICTURES, show_default=True
)
@click.option(
    "--suffix",
    "suffixes",
    type=click.Choice(("svg", "png")),
    multiple=True,
    default=("svg",),
    show_default=True,
)
@needs("drawing", "matplotlib")
def main(output: Path, suffixes: tuple[str, ...]) -> None:
    from vdla.sim.plots.files import save
    from vdla.sim.plots.roofline import point_of, roofline
    from vdla.sim.plots.timeline import timeline
    from vdla.sim.plots.utilisation import utilisation

    timings = {f"GEMM {m}x{n}x{k}": timing_of(m, n, k) for m, n, k in SIZES}
    shown = {name: timings[name] for name in (f"GEMM {m}x{n}x{k}" for m, n, k in SHOWN)}
    figures = {
        "roofline": roofline(
            {"simulated": [point_of(name, timing) for name, timing in timings.items()]}, Target(DEFAULT)
        ),
        "utilisation": utilisation(shown),
        "timeline": timeline(timing_of(*DRAWN)),
    }
    for (name, figure), suffix in product(figures.items(), suffixes):
        save(figure, output / f"{name}.{suffix}")
    click.echo(f"wrote {', '.join(sorted(path.name for path in output.iterdir()))} to {output}")


if __name__ == "__main__":
    main()
