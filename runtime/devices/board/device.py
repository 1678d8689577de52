"""The board device: the accelerator in an FPGA, or in the simulation of its system on chip."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import ClassVar
from weakref import finalize

import numpy as np

from vdla.boards.board_file import BoardFile, read_board_file
from vdla.hw.spec import codec, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import CycleLimitError, DeviceError, ProgramError
from vdla.hw.spec.footprint import dram_access, forms_in_dram
from vdla.hw.spec.memories import scratchpads_of
from vdla.hw.spec.sdram import AnyMemory
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.device import DEFAULT_DRAM_BYTES, PAGE_BYTES, DeviceLostError
from vdla.runtime.devices.board.dram import BoardDram, Pages, pages_of
from vdla.runtime.devices.board.driver import TRIES, Driver, Snapshot
from vdla.runtime.devices.board.link import WireError, open_link
from vdla.runtime.devices.checked import CheckedDevice
from vdla.runtime.devices.registers import raise_fault, read_counters, read_cycles
from vdla.sim.decoded import DecodedStream
from vdla.sim.rows import dram_rows

SIMULATED, SIMULATION = "sim", "vdla.boards.simulated"
"""The name of the simulated board, and the module that starts it; LiteX takes a second to import."""


class BoardDevice(CheckedDevice):
    """The accelerator of a board, behind the driver.

    Args:
        config: the accelerator; the board has to hold the same.
        dram_bytes: size of DRAM that is used.
        board: a folder with a board file, a board file, or "sim"; see `connect`.

    Raises:
        DeviceError: the board cannot be reached, holds another accelerator, or has less DRAM.
        DeviceLostError: it does not answer.
        ConfigError: the board file is invalid.
        ToolError: a package or tool is missing.
    """

    name: ClassVar[str] = "board"

    def __init__(
        self,
        config: AcceleratorConfig,
        dram_bytes: int = DEFAULT_DRAM_BYTES,
        *,
        board: str,
    ) -> None:
        super().__init__(config, dram_bytes)
        self._zeros = -(-dram_bytes // PAGE_BYTES) * PAGE_BYTES
        copy = np.zeros(self._zeros + 2 * PAGE_BYTES, np.uint8)
        self.dram = copy[:dram_bytes]
        connection = connect(board, config, copy.size)
        self._driver, self._lost = connection.driver, False
        self._end = finalize(self, connection.close)
        with self._watched():
            kept = not self._driver.initialise()
            self._driver.begin()
            self._dram = BoardDram(self._driver, copy, kept=kept)

    @property
    def lost(self) -> bool:
        """Whether the connection has ended, or the board may have lost its DRAM."""
        return self._lost

    def close(self) -> None:
        """End the connection, and a simulated board with it; the device cannot run afterwards."""
        self._lost = True
        self._end()

    @property
    def clock_hz(self) -> float:
        """The clock of the board, which counts the cycles of runs."""
        return self._driver.file.board.clock_mhz * 1e6

    @property
    def memory(self) -> AnyMemory:
        """The memory of the board's target, with which the cycle simulator predicts its cycles."""
        return self._driver.file.target.memory

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Close the device if it is lost within the context, or if an interrupt cuts a command short."""
        if self._lost:
            raise DeviceLostError(f"board {self._driver.file.board.name} is closed; make a new device")
        try:
            yield
        except (ProgramError, CycleLimitError):
            raise
        except BaseException:
            self.close()
            raise

    def _write_dram(self, address: int, source: np.ndarray) -> None:
        with self._watched():
            self._dram.write(address, source)

    def _read_dram(self, address: int, size: int) -> np.ndarray:
        self._fetch(np.array([address]), np.array([address + size]))
        return super()._read_dram(address, size)

    def _fetch(self, begins: np.ndarray, ends: np.ndarray) -> None:
        """Read intervals of bytes from the board where the host's copy is older."""
        with self._watched():
            self._dram.fetch(pages_of(begins, ends))

    def _stream(self, address: int, count: int) -> np.ndarray:
        stream = super()._stream(address, count)
        self._fetch(np.array([address]), np.array([address + stream.size]))
        return stream

    def verify(self, program: DecodedStream, stream_address: int) -> None:
        """Raise an error if a stream is unsafe, as the contract says; micro-ops come from the board first."""
        loads = dram_rows(program, isa.Load)
        self._fetch(*loads.chosen(loads.memory == MemoryType.UOP).spans())
        super().verify(program, stream_address)

    def _run(
        self, program: DecodedStream, stream_address: int, cycle_limit: int | None
    ) -> tuple[int, Mapping[str, int]]:
        """Run a stream. Hardware ends every run, so a run that reaches `cycle_limit` goes on to its end.

        DRAM and scratchpads keep what was written before an error.
        """
        size = len(program) * self.config.instruction_bytes
        read, stored = _footprint(program)
        code = pages_of(np.array([stream_address]), np.array([stream_address + size]))
        with self._watched():
            snapshot = self._measure(
                np.union1d(np.union1d(read, stored), code), stored, stream_address, len(program)
            )
            cycles = read_cycles(snapshot)
            raise_fault(snapshot, cycles, partial(self.word_at, stream_address), self.config)
            if cycle_limit is not None and cycles > cycle_limit:
                raise CycleLimitError(
                    f"the run took {cycles} cycles, more than its limit of {cycle_limit} cycles"
                )
        return cycles, read_counters(snapshot)

    def _measure(self, used: Pages, stored: Pages, address: int, count: int) -> Snapshot:
        """Run a stream on the board; return the registers after it."""
        for _ in range(TRIES):
            self._dram.withdraw(stored)
            self._dram.upload(used)
            try:
                self._driver.start(address, count)
                snapshot = self._driver.wait()
            except WireError as error:
                last = error
                self._driver.settle()
                self._dram.distrust()
            else:
                self._dram.stored(stored)
                self._dram.publish()
                return snapshot
        raise DeviceLostError(
            f"board {self._driver.file.board.name} does not start a run in {TRIES} attempts: {last}; check "
            "cable and power, and run again"
        )

    def reset(self) -> None:
        """Clear the scratchpads by a stream that loads zeros; DRAM keeps its contents.

        The zeros and the stream have two pages behind the DRAM of the device.
        """
        encoded = np.frombuffer(codec.to_bytes(_clearing(self.config, self._zeros), self.config), np.uint8)
        address, count = self._zeros + PAGE_BYTES, encoded.size // self.config.instruction_bytes
        with self._watched():
            self._dram.write(address, encoded)
            used = np.array([self._zeros, address]) // PAGE_BYTES
            snapshot = self._measure(used, used[:0], address, count)
            raise_fault(snapshot, read_cycles(snapshot), lambda index: 0, self.config)


def _clearing(config: AcceleratorConfig, zeros: int) -> list[isa.Instruction]:
    """Return a stream that fills every scratchpad with the zeros of the page at byte `zeros`."""
    loads: list[isa.Instruction] = []
    for memory in scratchpads_of(config):
        size, depth = config.element_bytes(memory), config.depth(memory)
        row = min(depth, max(1, PAGE_BYTES // size))
        loads.append(
            isa.Load(memory_type=memory, dram_base=zeros // size, x_size=row, y_size=depth // row, x_stride=0)
        )
    return [*loads, isa.Finish()]


def _footprint(program: DecodedStream) -> tuple[Pages, Pages]:
    """Return the pages that a stream reads, without its instructions, and pages that it may store into."""
    read: list[Pages] = []
    stored: list[Pages] = []
    for form in forms_in_dram():
        pages = pages_of(*dram_rows(program, form).spans())
        (stored if dram_access(form).writes else read).append(pages)
    return np.unique(np.concatenate(read)), np.unique(np.concatenate(stored))


@dataclass(frozen=True)
class Connection:
    """A board that answers.

    Attributes:
        driver: its driver.
        end: what has to end with the connection, as a simulation.
    """

    driver: Driver
    end: Callable[[], None]

    def close(self) -> None:
        """End the connection, and the simulation."""
        self.driver.close()
        self.end()


def connect(board: str, config: AcceleratorConfig, dram_bytes: int) -> Connection:
    """Connect to a board.

    Args:
        board: a folder with a board file, a board file, or SIMULATED.
        config: the accelerator that it has to hold.
        dram_bytes: that the device uses.

    Raises:
        DeviceError: the board cannot be reached, holds another accelerator, or has less DRAM.
        ConfigError: the board file is invalid.
        ToolError: a package or tool of the simulation is missing.
    """
    if board != SIMULATED:
        file = read_board_file(Path(board))
        return _connected(file, config, dram_bytes, lambda: None)
    simulation = import_module(SIMULATION).simulate(config)
    return _connected(simulation.file, config, dram_bytes, simulation.close)


def _connected(
    file: BoardFile, config: AcceleratorConfig, dram_bytes: int, end: Callable[[], None]
) -> Connection:
    """Connect to the board of a file; call `end` if that fails."""
    try:
        _check(file, config, dram_bytes)
        link = open_link(file.link)
        try:
            return Connection(Driver(file, link), end)
        except BaseException:
            link.close()
            raise
    except BaseException:
        end()
        raise


def _check(file: BoardFile, config: AcceleratorConfig, dram_bytes: int) -> None:
    """Refuse a board of another accelerator, or with too little DRAM."""
    name, digest = file.board.name, file.board.config_digest
    if digest != config.digest:
        built = file.target.config
        raise DeviceError(
            f"board {name} holds the configuration {built.name} ({digest[:12]}), and {config.name} "
            f"({config.digest[:12]}) is to run; build the board with that configuration, or compile for "
            f"{built.name}"
        )
    if dram_bytes > file.map.memory_bytes:
        raise DeviceError(
            f"{dram_bytes} bytes of DRAM are needed, and board {name} has {file.map.memory_bytes} bytes; "
            "take a board with more DRAM, or a smaller network"
        )
