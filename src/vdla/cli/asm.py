"""``vdla asm``."""

from pathlib import Path

import click

from vdla.cli._options import OUTPUT_FILE, takes_config
from vdla.hw.spec import assembly, codec
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import AssemblyError
from vdla.hw.spec.limits import read_at_most
from vdla.hw.spec.writing import check_writable, write_bytes


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("-o", "--output", required=True, type=OUTPUT_FILE, help="Binary to write.")
@click.option("--uops", is_flag=True, help="The file holds micro-ops.")
@takes_config
def command(config: AcceleratorConfig, file: Path, output: Path, uops: bool) -> None:
    """Assemble FILE into instructions, or micro-ops, of the widths that `vdla config` shows."""
    check_writable(output)
    try:
        text = read_at_most(file, assembly.LARGEST_TEXT_BYTES, AssemblyError).decode()
    except UnicodeDecodeError as error:
        raise AssemblyError(f"{file} is not text: {error}") from error
    write_bytes(
        output,
        codec.uops_to_bytes(assembly.parse_uops(text, str(file)), config)
        if uops
        else codec.to_bytes(assembly.parse_program(text, str(file)), config),
    )
