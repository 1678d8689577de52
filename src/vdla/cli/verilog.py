"""``vdla verilog``."""

from pathlib import Path

import click

from vdla.cli._options import OUTPUT_FILE, takes_config
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.writing import check_writable, write_together


@click.command()
@click.option(
    "--top",
    type=click.Choice(["core", "axi"]),
    default="core",
    show_default=True,
    help="core: plain memory and register ports; axi: AXI4 master, AXI4-Lite slave.",
)
@click.option("-o", "--output", "folder", required=True, type=OUTPUT_FILE, help="Folder to write into.")
@takes_config
def command(config: AcceleratorConfig, top: str, folder: Path) -> None:
    """Write one self-contained Verilog file, the configuration, and a description of ports and registers.

    The configuration is written last: if it is new, the other files are, too.
    """
    from vdla.hw.describe import describe  # these import Amaranth, which takes a second
    from vdla.hw.spec.files import to_toml
    from vdla.hw.verilog import emit

    name = f"vdla_{top}"
    source, page, settings = (folder / f"{name}.{suffix}" for suffix in ("v", "md", "toml"))
    check_writable(source, page, settings)
    text = emit(config, top)
    write_together({source: text, page: describe(text, name, config), settings: to_toml(config)})
    for path in (source, page, settings):
        click.echo(path)
