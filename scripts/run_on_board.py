"""Run networks on a board: outputs and cycles beside the cycle device's, and the time of a real board.

    .venv/bin/python scripts/run_on_board.py digits mobilenet_v2 resnet18 --board sim --config small

Every network runs on random inputs; `digits` reads the digits of the test set instead. The outputs have to
equal the outputs of the cycle device, to the bit. The cycle device predicts the cycles with the memory of the
board file, which is a model of the board's DRAM. Exit status 1 if an output differs.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import vdla
from vdla.api import Module
from vdla.hw.spec.target_files import load
from vdla.runtime.devices.registry import BOARD_PREFIX
from vdla.runtime.module.plan import random_inputs
from vdla.runtime.session.session import Outcome, Session

ROOT = Path(__file__).parent.parent
EXAMPLE, MODELS = ROOT / "examples" / "digits", ROOT / "build" / "models"
DIGITS, CALIBRATION = "digits", 128


@dataclass(frozen=True)
class Run:
    """One network on a board and on the cycle device.

    Attributes:
        inputs: how many inputs ran.
        different: how many outputs differ.
        cycles, predicted: of one input, on the board and on the cycle device.
        clock_hz: of the board.
        seconds: of wall time of the first input, and on average of each further input.
    """

    inputs: int
    different: int
    cycles: int
    predicted: int
    clock_hz: float
    seconds: tuple[float, float]

    def line(self, name: str) -> str:
        """Return it as a line of text."""
        first, further = self.seconds
        return (
            f"{name}: {self.inputs} inputs, {self.different} outputs differ; {self.cycles} cycles, "
            f"{self.predicted} predicted ({self.cycles / self.predicted - 1:+.1%}); "
            f"{1e3 * self.cycles / self.clock_hz:.3f} ms at {self.clock_hz / 1e6:g} MHz; "
            f"wall time {first:.1f} s for the first input, {further:.2f} s for each further one"
        )


def module_and_inputs(name: str, target: str, count: int) -> tuple[Module, list[dict[str, np.ndarray]]]:
    """Return a compiled network and what it is to run on."""
    if name != DIGITS:
        module = vdla.compile(MODELS / f"{name}_int8.onnx", target)
        return module, [dict(random_inputs(module.inputs))]
    sys.path.append(str(EXAMPLE))
    from samples import split

    training, test = split()
    samples = [{"image": image[None]} for image in training.images[:CALIBRATION]]
    module = vdla.compile(EXAMPLE / "digits.onnx", target, samples=samples)
    return module, [{"image": image[None]} for image in test.images[:count]]


def compare(module: Module, inputs: list[dict[str, np.ndarray]], board: str) -> Run:
    """Run a module on a board and on the cycle device."""
    on_board = module.session(f"{BOARD_PREFIX}{board}")
    memory = getattr(on_board.device, "memory", None)
    simulated = module.session("cycle", memory)
    different, seconds, cycles, predicted = 0, [], 0, 0
    for measured, expected, taken in _outcomes(on_board, simulated, inputs):
        different += any(
            not np.array_equal(measured.outputs[key], expected.outputs[key]) for key in expected.outputs
        )
        seconds.append(taken)
        cycles, predicted = measured.cycles or 0, expected.cycles or 0
    further = float(np.mean(seconds[1:])) if len(seconds) > 1 else 0.0
    clock_hz = float(getattr(on_board.device, "clock_hz", module.plan.target.clock_hz))
    return Run(len(inputs), different, cycles, predicted, clock_hz, (seconds[0], further))


def _outcomes(
    on_board: Session, simulated: Session, inputs: list[dict[str, np.ndarray]]
) -> Iterator[tuple[Outcome, Outcome, float]]:
    """Yield the outcome on the board, the outcome on the cycle device, and the wall time on the board."""
    for values in inputs:
        began = time.monotonic()
        measured = on_board.run(values)
        seconds = time.monotonic() - began
        yield measured, simulated.run(values), seconds


def main() -> None:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("networks", nargs="+", metavar="NETWORK", help=f"{DIGITS}, or NAME of NAME_int8.onnx")
    parser.add_argument("--board", default="sim", help="folder of a build, board file, or sim")
    parser.add_argument("--config", default="tiny", help="preset or target file")
    parser.add_argument("--inputs", type=int, default=359, help="digits to read")
    options = parser.parse_args()
    load(options.config)  # refuses an unknown name before anything is compiled
    failed = False
    for name in options.networks:
        run = compare(*module_and_inputs(name, options.config, options.inputs), options.board)
        failed |= run.different > 0
        print(run.line(f"{name} on {options.config}"), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
