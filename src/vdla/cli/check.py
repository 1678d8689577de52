"""``vdla check``."""

import json
import sys
from pathlib import Path

import click
import numpy as np

from vdla.cli._options import VECTORS, reports_errors
from vdla.hw.spec.errors import ProgramError
from vdla.runtime.vectors import load_vector, stream_address
from vdla.sim.decoded import decode_stream
from vdla.sim.verify.verifier import describe, findings


@click.command()
@VECTORS
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@reports_errors
def command(vectors: tuple[Path, ...], as_json: bool) -> None:
    """Verify programs without running them; exit status 1 if one is unsafe.

    In a safe program every encoding is valid, every access is in bounds, and everything that is read has been
    written. The program does not deadlock. Tokens order all accesses of different units to the same data. No
    STORE changes the stream, or micro-ops that the stream loads.
    """
    rows = [{"name": path.stem, "problems": _problems(path)} for path in vectors]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
    else:
        for row in rows:
            click.echo(f"{row['name']}: {'safe' if not row['problems'] else ''}")
            for problem in row["problems"]:
                click.echo(f"  {problem}")
    sys.exit(1 if any(row["problems"] for row in rows) else 0)


def _problems(path: Path) -> list[str]:
    vector = load_vector(path)
    dram = np.zeros(max((segment.end for segment in vector.segments), default=0), np.uint8)
    for segment in vector.segments:
        dram[segment.address : segment.address + segment.initial.size] = segment.initial
    program = decode_stream(vector.stream, vector.config)
    try:
        hazards = findings(program, dram, stream_address=stream_address(vector))
        return [describe(finding, program) for finding in hazards]
    except ProgramError as error:
        return [str(error)]
