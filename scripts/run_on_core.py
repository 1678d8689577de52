"""Run the exported C of networks on the RISC-V core of a simulated board; compare with the cycle device.

    .venv/bin/python scripts/run_on_core.py digits --config tiny --inputs 4

Zig compiles the C that `vdla export` writes. The core runs it from its memory, and starts the accelerator by
the exported driver. Outputs have to equal the cycle device's, to the bit. The cycle device predicts the
cycles of the accelerator with a model of the board's SDRAM. Exit status 1 if an output differs, or if cycles
differ from the prediction by more than --most percent. Softmax and the other operators whose results may
differ (docs/export.md) count as well.
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from exported.core import CoreAnswer, CoreProgram
from run_on_board import DIGITS, module_and_inputs

from vdla.api import Module
from vdla.cli._options import reports_errors
from vdla.runtime.session.session import Outcome

PERCENT = 100


@dataclass(frozen=True)
class Row:
    """A network on the core.

    Attributes:
        different: how many runs differ in an output, or end with an error.
        cycles, predicted: of the accelerator in each run, on the board and on the cycle device.
        core_cycles: from the command to the end of each run, on the core.
        program_bytes: of the core's memory, without the stack.
    """

    different: int
    cycles: tuple[int, ...]
    predicted: tuple[int, ...]
    core_cycles: tuple[int, ...]
    program_bytes: int

    @property
    def farthest(self) -> float:
        """The greatest difference between cycles and prediction, in percent of the prediction."""
        pairs = zip(self.cycles, self.predicted, strict=True)
        return max(PERCENT * abs(cycles / predicted - 1) for cycles, predicted in pairs)

    def line(self, name: str) -> str:
        """Return the row as a line of text."""
        return (
            f"{name}: {len(self.cycles)} inputs, {self.different} runs differ; accelerator "
            f"{_span(self.cycles)} cycles, {_span(self.predicted)} predicted, at most {self.farthest:.2f} % "
            f"apart; whole run {_span(self.core_cycles)} cycles; program {self.program_bytes:,} bytes"
        )


def _span(numbers: tuple[int, ...]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def compare(module: Module, inputs: list[dict[str, np.ndarray]], folder: Path) -> Row:
    """Run a module on the core and on the cycle device.

    Args:
        folder: for the C and the program.

    Raises:
        RuntimeError: the C does not compile, or the network cannot be initialised.
    """
    with CoreProgram(module.plan, folder) as program:
        code = program.init().code
        if code != "VDLA_OK":
            raise RuntimeError(f"{module.plan.name} on the core: initialisation ends with {code}")
        session = module.session("cycle", program.memory)
        runs = [(program.run(values), session.run(values)) for values in inputs]
    return Row(
        different=sum(not _is_same(*run) for run in runs),
        cycles=tuple(answer.cycles for answer, _ in runs),
        predicted=tuple(expected.cycles or 0 for _, expected in runs),
        core_cycles=tuple(answer.core_cycles for answer, _ in runs),
        program_bytes=program.code_bytes,
    )


def _is_same(answer: CoreAnswer, expected: Outcome) -> bool:
    return answer.code == "VDLA_OK" and all(
        array.tobytes() == expected.outputs[name].tobytes() for name, array in answer.outputs.items()
    )


@click.command(help=__doc__)
@click.argument("networks", nargs=-1)
@click.option("--config", default="tiny", show_default=True, help="Preset or target file.")
@click.option("--inputs", default=4, show_default=True, help="Digits to read.")
@click.option("--most", default=1.0, show_default=True, help="Allowed difference of cycles in percent.")
@reports_errors
def main(networks: tuple[str, ...], config: str, inputs: int, most: float) -> None:
    """Compare each network: digits, or NAME of build/models/NAME_int8.onnx."""
    failed = False
    for name in networks or (DIGITS,):
        with tempfile.TemporaryDirectory() as folder:
            row = compare(*module_and_inputs(name, config, inputs), Path(folder))
        failed |= row.different > 0 or row.farthest > most
        click.echo(row.line(f"{name} on {config}"))
    sys.exit(failed)


if __name__ == "__main__":
    main()
