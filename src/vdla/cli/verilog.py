"""``vdla verilog``."""

import re
from pathlib import Path

import click

from vdla.cli._options import OUTPUT_FILE, takes_config
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.showing import shown
from vdla.hw.spec.writing import check_writable, write_together

IDENTIFIER = re.compile(r"[A-Za-z_]\w{0,63}", re.ASCII)


@click.command()
@click.option(
    "--top",
    type=click.Choice(["core", "axi"]),
    default="core",
    show_default=True,
    help="core: plain memory and register ports; axi: AXI4 master, AXI4-Lite slave.",
)
@click.option(
    "--module",
    metavar="NAME",
    help="Name of the top module, and start of the names of the others.  "
    "[default: vdla_TOP_ and the configuration's name and digest]",
)
@click.option("-o", "--output", "folder", required=True, type=OUTPUT_FILE, help="Folder to write into.")
@takes_config
def command(config: AcceleratorConfig, top: str, module: str | None, folder: Path) -> None:
    """Write one self-contained Verilog file, the configuration, and a description of ports and registers.

    The file is called vdla_core.v or vdla_axi.v. Its modules have names that tell the configuration, so
    several accelerators fit into one design.

    The configuration is written last: if it is new, the other files are, too.
    """
    from vdla.hw.spec.files import to_toml
    from vdla.hw.verilog import emit, module_name
    from vdla.hw.verilog_text import describe  # these import Amaranth, which takes a second

    if module is not None and not IDENTIFIER.fullmatch(module):
        raise click.UsageError(
            f"--module {shown(module)} is no name of a module: letters, digits and _, the first no digit"
        )
    source, page, settings = (folder / f"vdla_{top}.{suffix}" for suffix in ("v", "md", "toml"))
    check_writable(source, page, settings)
    name = module or module_name(config, top)
    text = emit(config, top, name)
    write_together({source: text, page: describe(text, name, config), settings: to_toml(config)})
    for path in (source, page, settings):
        click.echo(path)
