#!/usr/bin/env python3
"""Plant faults in the stream verifier and check that the comparison with its reference notices each.

The faults are in `scripts/verification/faults.py`. Each is planted in a scratch copy of the tree, in which
`compare_verifiers.py` then runs. Exit status 1 if the comparison passes in spite of a fault, or fails
without a fault.
"""

import sys
from pathlib import Path

import click
from mutation.trees import Result, Trees
from verification.faults import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "break_verifier"
LIMIT = 1800  # seconds of processor time of a comparison
STREAMS_WITHOUT_FAULT = 100
DIFFERENT = 1  # exit status of the comparison


def compared(trees: Trees, fault: Fault | None, streams: int) -> Result:
    """Return how the comparison ends in a copy with a fault."""
    changed = {}
    if fault is not None:
        changed = {fault.module: fault.planted((ROOT / fault.module).read_text(encoding="utf-8")).encode()}
    with trees.copy(changed) as place:
        return trees.python(
            place, ("scripts/compare_verifiers.py", "--first", "--streams", str(streams)), LIMIT
        )


@click.command(help=__doc__)
@click.option("--streams", default=3000, show_default=True, help="Streams for each fault.")
def main(streams: int) -> None:
    missed = 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    with Trees(ROOT, FOLDER, "verifier") as trees:
        if compared(trees, None, STREAMS_WITHOUT_FAULT).status != 0:
            raise click.ClickException("the comparison fails without a fault; run compare_verifiers.py")
        for number, fault in enumerate(FAULTS, 1):
            result = compared(trees, fault, streams)
            noticed = result.status == DIFFERENT and "disagreements" in result.text
            missed += not noticed
            click.echo(f"[{number}/{len(FAULTS)}] {'noticed' if noticed else 'MISSED'}  {fault}")
            if not noticed and result.status != 0:
                click.echo(result.text[-2000:])
    click.echo(f"{len(FAULTS)} faults: {len(FAULTS) - missed} noticed")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
