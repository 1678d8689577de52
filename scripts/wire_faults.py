"""Damage the wire between the driver and a board, at random: no wrong answer, and nothing hangs.

    .venv/bin/python scripts/wire_faults.py --faults 1000

Each trial runs a stream on a device whose wire loses, doubles or damages a byte, or closes, or whose board is
reset, at a random moment. The run gives the DRAM of the functional device, or a named error. The run after
it, on a new device after an error, gives that DRAM. The board is `scripts/wire/python_board.py`.

Prints a line for each outcome and kind of fault. The exit status is 1 if an answer is wrong, an error has no
name, or a trial takes too long.
"""

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
from wire.proxy import Fault, Kind, Proxy
from wire.python_board import PythonBoard

from vdla.boards.board_file import to_toml
from vdla.hw.spec import codec, isa
from vdla.hw.spec.errors import DeviceError
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.devices.board.device import BoardDevice
from vdla.runtime.devices.functional import FunctionalDevice

DRAM_BYTES, STREAM, RESULT, DATA = 0x4000, 0x3000, 0x2000, 0x1000
ROWS = 16
MOST_SECONDS = 60.0
NEW_DEVICE_SHARE = 0.2
MESSAGE = 70  # characters
RIGHT, NAMED = "right answer", "named error"
COPY = codec.to_bytes(
    [
        isa.Load(
            memory_type=MemoryType.ACC,
            dram_base=DATA // TINY.element_bytes(MemoryType.ACC),
            x_size=ROWS,
            y_size=1,
            x_stride=ROWS,
        ),
        isa.Load(memory_type=MemoryType.UOP, push_next=1),
        isa.Store(
            memory_type=MemoryType.OUT,
            dram_base=RESULT // TINY.element_bytes(MemoryType.OUT),
            x_size=ROWS,
            y_size=1,
            x_stride=ROWS,
            pop_prev=1,
            push_prev=1,
        ),
        isa.Finish(pop_next=1),
    ],
    TINY,
)


class WrongAnswerError(Exception):
    """A device gave other bytes than the functional device."""


@dataclass
class Tally:
    """What happened.

    Attributes:
        outcomes: how often each fault had each outcome.
        slowest: seconds of the longest trial.
        messages: beginnings of the errors.
    """

    outcomes: Counter[tuple[Kind, str]] = field(default_factory=Counter)
    slowest: float = 0.0
    messages: Counter[str] = field(default_factory=Counter)

    def lines(self) -> list[str]:
        """Return a line for each kind of fault and outcome."""
        rows = [
            f"{kind:8} {outcome:14} {count:5}" for (kind, outcome), count in sorted(self.outcomes.items())
        ]
        rows += [f"{count:5} errors: {message}" for message, count in self.messages.most_common()]
        return [*rows, f"{sum(self.outcomes.values())} faults, slowest trial {self.slowest:.1f} s"]


def campaign(faults: int, seed: int, folder: Path) -> Tally:
    """Run trials until `faults` faults have happened.

    Raises:
        WrongAnswerError: an answer was wrong.
        TimeoutError: a trial took more than MOST_SECONDS.
    """
    tally, random = Tally(), np.random.default_rng(seed)
    with (
        PythonBoard(Target(TINY), 1 << 16, "functional") as board,
        Proxy(board.file.link.port, board.reset) as proxy,
    ):
        file = msgspec.structs.replace(
            board.file, link=msgspec.structs.replace(board.file.link, port=proxy.port, answer_seconds=2.0)
        )
        (folder / "board.toml").write_text(to_toml(file))
        bench = _Bench(folder)
        while sum(tally.outcomes.values()) < faults:
            _trial(bench, proxy, random, tally)
            if sum(tally.outcomes.values()) % 50 == 0:
                print("\n".join(tally.lines()), file=sys.stderr)
        bench.run(0)
        bench.close()
    return tally


class _Bench:
    """Devices on one board, in turn."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._device: BoardDevice | None = None

    def run(self, seed: int) -> None:
        """Run the stream on random DRAM, on a new device if there is none, and compare all of DRAM.

        Raises:
            DeviceError: the device says what is wrong; the next run has a new device.
            WrongAnswerError: DRAM differs from the functional device's DRAM.
        """
        image = np.random.default_rng(seed).integers(0, 256, STREAM, np.uint8)
        try:
            self._device = self._device or BoardDevice(TINY, DRAM_BYTES, board=str(self._folder))
            result, expected = (
                _result(each, image) for each in (self._device, FunctionalDevice(TINY, DRAM_BYTES))
            )
        except DeviceError:
            self.close()
            raise
        if not np.array_equal(result, expected):
            raise WrongAnswerError(f"{np.count_nonzero(result != expected)} bytes differ (seed {seed})")

    def close(self) -> None:
        """Close the device; the next run makes a new device."""
        if self._device is not None:
            self._device.close()
        self._device = None


def _trial(bench: _Bench, proxy: Proxy, random: np.random.Generator, tally: Tally) -> None:
    """Run once to see how many bytes pass, then with a fault among as many bytes, then without.

    A fault at the end of a run may show in the next run. The run after that has to be right.
    """
    if random.random() < NEW_DEVICE_SHARE:
        bench.close()
    before = dict(proxy.passed)
    bench.run(int(random.integers(1 << 30)))
    kind, to_board = Kind(random.choice(list(Kind))), bool(random.integers(2))
    place = proxy.passed[to_board] + int(random.integers(proxy.passed[to_board] - before[to_board]))
    if random.random() < NEW_DEVICE_SHARE:
        bench.close()
    fault = Fault(to_board, place, kind, 1 << int(random.integers(8)))
    proxy.faults = [fault]
    happened, began = proxy.happened, time.monotonic()
    try:
        bench.run(int(random.integers(1 << 30)))
        happened, proxy.faults = proxy.happened - happened, []
        bench.run(int(random.integers(1 << 30)))
        outcome = RIGHT
    except DeviceError as error:
        happened, proxy.faults = proxy.happened - happened, []
        outcome = NAMED
        tally.messages[str(error)[:MESSAGE]] += 1
    seconds = time.monotonic() - began
    if seconds > MOST_SECONDS:
        raise TimeoutError(f"{fault} took {seconds:.0f} s")
    tally.slowest = max(tally.slowest, seconds)
    if happened:
        tally.outcomes[kind, outcome] += 1


def _result(device: BoardDevice | FunctionalDevice, image: np.ndarray) -> np.ndarray:
    device.copy_in(0, image)
    device.copy_in(STREAM, COPY)
    device.run(STREAM, len(COPY) // TINY.instruction_bytes)
    return device.copy_out(0, STREAM)


def main() -> None:
    """Run the campaign that the command line describes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        try:
            tally = campaign(options.faults, options.seed, Path(folder))
        except (WrongAnswerError, TimeoutError) as error:
            print(f"failed: {error}")
            sys.exit(1)
    print("\n".join(tally.lines()))


if __name__ == "__main__":
    main()
