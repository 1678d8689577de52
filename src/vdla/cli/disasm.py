"""``vdla disasm``."""

from pathlib import Path

import click

from vdla.cli._options import takes_config
from vdla.hw.spec import assembly, codec
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import EncodingError, FileFormatError
from vdla.hw.spec.limits import STREAM_BYTES, limit_of, read_at_most, require_room


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--uops", is_flag=True, help="The file holds micro-ops.")
@takes_config
def command(config: AcceleratorConfig, file: Path, uops: bool) -> None:
    """Print the assembly of FILE: a binary, or a conformance vector (.npz) with its own configuration."""
    if file.suffix == ".npz":
        from vdla.runtime.vectors import load_vector  # NumPy takes longer to import than the rest to run

        vector = load_vector(file)
        require_room(vector.stream.nbytes, STREAM_BYTES, "disassembling: the stream has", FileFormatError)
        config, binary = vector.config, vector.stream.tobytes()
    else:
        binary = read_at_most(file, limit_of(STREAM_BYTES), FileFormatError)
    if uops:
        words = codec.words(binary, config.uop_bits // 8)
        lines = [assembly.format_uop(codec.decode_uop(word, config)) for word in words]
    else:
        words = codec.words(binary, config.instruction_bytes)
        lines = [_line(index, word, config) for index, word in enumerate(words)]
    click.echo("\n".join(lines))


def _line(index: int, word: int, config: AcceleratorConfig) -> str:
    try:
        return f"{assembly.format_instruction(codec.decode(word, config))}  # {index}"
    except EncodingError as error:
        raise EncodingError(f"instruction {index} ({codec.shown_word(word, config)}): {error}") from error
