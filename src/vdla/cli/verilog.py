"""``vdla verilog``."""

import tempfile
from pathlib import Path

import click

from vdla.cli._options import takes_config
from vdla.hw.spec.config import AcceleratorConfig


@click.command()
@click.option("--top", type=click.Choice(["core", "axi"]), default="core", show_default=True,
              help="core: own memory and register ports; axi: AXI4 master, AXI4-Lite slave.")
@click.option("-o", "--output", "folder", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder to write into.")
@takes_config
def command(config: AcceleratorConfig, top: str, folder: Path) -> None:
    """Write one self-contained Verilog file, the configuration, and a description of ports and registers."""
    from vdla.hw.describe import describe  # these import Amaranth, which takes a second
    from vdla.hw.spec.files import to_toml
    from vdla.hw.verilog import emit

    text = emit(config, top)
    name = f"vdla_{top}"
    write_together(folder, {f"{name}.v": text, f"{name}.toml": to_toml(config), f"{name}.md": describe(text, name, config)})
    for suffix in ("v", "toml", "md"):
        click.echo(folder / f"{name}.{suffix}")


def write_together(folder: Path, contents: dict[str, str]) -> None:
    """Write files so that each is either whole or as it was before."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as draft:
        for name, text in contents.items():
            (Path(draft) / name).write_text(text)
        for name in contents:
            (Path(draft) / name).replace(folder / name)
