"""The driver of a board: identity, initialisation of DRAM, copies of DRAM, runs.

A serial link may lose, double or damage bytes. The driver therefore trusts no single transfer:

- A value that is read counts if two reads agree.
- A write counts if reading back gives what was written. A damaged write may have reached any address, so the
  caller has to check all of DRAM again (`vdla.runtime.devices.board.dram`).
- A failed read cannot have written: the driver stays silent until the board has dropped the command.
- A run counts if it raised the interrupt, which was clear before. A reset of the board clears the enable of
  the interrupt, so no run before or after a reset passes for another.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar

import numpy as np

from vdla.boards.board_file import BoardFile
from vdla.hw.spec.errors import DeviceError
from vdla.hw.spec.registers import IDENTITY, OFFSETS, REGISTERS, VERSION, Control, Status
from vdla.runtime.device import DeviceLostError
from vdla.runtime.devices.board.levelling import LevellingError, level
from vdla.runtime.devices.board.link import WORD_BYTES, Link, WireError
from vdla.runtime.devices.registers import stream_values

T = TypeVar("T")
TRIES = 5
SHORTEST_WAIT, LONGEST_WAIT = 0.0005, 0.05  # seconds between two looks at STATUS
WRITTEN_WORDS = 192  # between two reads: the 8-word bursts of LiteX's UARTBone then take 912 bytes
WORD = np.dtype("<u4")
RESET = "the board was reset, and its DRAM is lost; run again"


class Snapshot:
    """The values of all registers while nothing runs.

    Attributes:
        values: by name.
    """

    def __init__(self, values: Mapping[str, int]) -> None:
        self.values = values

    def read_register(self, name: str) -> int:
        """Return the value of a register."""
        return self.values[name]

    @property
    def status(self) -> Status:
        """The register STATUS."""
        return Status(self.values["STATUS"])


class Driver:
    """A board that answers.

    Args:
        file: what is known of the board.
        link: connection to it.

    Raises:
        DeviceError: the board holds no accelerator, or not the accelerator of `file`.
        DeviceLostError: it does not answer.
    """

    def __init__(self, file: BoardFile, link: Link) -> None:
        self.file, self._link = file, link
        link.settle()  # an earlier client may have ended within a command
        self._check_identity(self.snapshot())

    def close(self) -> None:
        """End the connection."""
        self._link.close()

    def _check_identity(self, snapshot: Snapshot) -> None:
        """Refuse a board with another accelerator."""
        name = self.file.board.name
        wanted = {
            "IDENTITY": IDENTITY,
            "VERSION": VERSION,
            "CONFIG_DIGEST": int(self.file.board.config_digest[:8], 16),
        }
        for register, value in wanted.items():
            read = snapshot.values[register]
            if read != value:
                raise DeviceError(
                    f"board {name} at {self._link.where} has {register} = {read:#010x}, and its board file "
                    f"expects {value:#010x}: the FPGA holds another bitstream; load the bitstream of this "
                    "board file with vdla flash"
                )

    # Transfers.

    def again(self, action: Callable[[], T]) -> T:
        """Return the result of an action that only reads; repeat it after a wire fault.

        Raises:
            DeviceLostError: the wire fails TRIES times.
        """
        for _ in range(TRIES):
            try:
                return action()
            except WireError as error:
                last = error
                self.settle()
        raise DeviceLostError(
            f"board {self.file.board.name} at {self._link.where} does not answer as it should in {TRIES} "
            f"attempts: {last}; check cable and power, and run again"
        )

    def settle(self) -> None:
        """Let the board drop what it received in part."""
        self._link.settle()

    def words(self, address: int, count: int) -> list[int]:
        """Return `count` words of the bus from byte `address`, on which two reads agree; repeats reads."""
        return [
            word
            for first in range(0, count, self._link.longest)
            for word in self._agreed(address + WORD_BYTES * first, min(self._link.longest, count - first))
        ]

    def _agreed(self, address: int, count: int) -> list[int]:
        def twice() -> list[int]:
            first, second = (self._link.read(address, count) for _ in range(2))
            if first != second:
                raise WireError(f"two reads of {count} words at {address:#x} differ")
            return first

        return self.again(twice)

    def write(self, address: int, data: np.ndarray) -> None:
        """Write uint8[bytes], a multiple of WORD_BYTES, to the bus; the caller checks whether they arrive.

        A read after WRITTEN_WORDS words limits the bytes on their way to the board.

        Raises:
            WireError: they cannot be sent, or the board does not answer.
        """
        words = data.view(WORD).tolist()
        for first in range(0, len(words), WRITTEN_WORDS):
            place = address + WORD_BYTES * first
            self._link.write(place, words[first : first + WRITTEN_WORDS])
            self._link.read(place, 1)

    def snapshot(self) -> Snapshot:
        """Return the values of all registers. While a run changes them, two reads do not agree."""
        words = self.words(self.file.map.registers, len(REGISTERS))
        return Snapshot(dict(zip(OFFSETS, words, strict=True)))

    def write_register(self, name: str, value: int) -> None:
        """Write a register; nothing tells whether the value arrives.

        Raises:
            WireError: it cannot be sent.
        """
        self._link.write(self.file.map.registers + OFFSETS[name], [value])

    # DRAM.

    def initialise(self) -> bool:
        """Perform the steps that initialise DRAM, unless they were performed since the board's last reset.

        The last step hands DRAM to its controller, so its register tells whether DRAM is initialised. The
        reads of a DDR3 DRAM are levelled before it.

        Returns:
            Whether the steps were performed: DRAM has lost its contents then.

        Raises:
            DeviceError: the last step has no effect, or reads cannot be levelled.
            DeviceLostError: the board does not answer.
        """
        steps, problem = self.file.memory.init, ""
        for attempt in range(TRIES):
            if not steps or self.words(steps[-1][0], 1) == [steps[-1][1]]:
                return attempt > 0
            try:
                self._perform(steps[:-1])
                if self.file.memory.levelling is not None:
                    level(self, self.file.csr, self.file.memory.levelling)
                self._perform(steps[-1:])
                problem = f"the control register at {steps[-1][0]:#x} does not keep {steps[-1][1]:#x}"
            except (WireError, LevellingError) as error:
                problem = str(error)
                self.settle()
        raise DeviceError(
            f"board {self.file.board.name}: the DRAM {self.file.memory.part} cannot be initialised: "
            f"{problem}; check that the board file belongs to the bitstream, or build with a lower clock "
            "(--set clock_mhz=...)"
        )

    def forget_initialisation(self) -> None:
        """Take DRAM from its controller, so that the next driver initialises it."""
        for address, _, _ in self.file.memory.init[-1:]:
            with suppress(WireError):
                self._link.write(address, [0])
                self._link.read(address, 1)

    def _perform(self, steps: tuple[tuple[int, int, int], ...]) -> None:
        """Write each step's value, and wait."""
        for address, value, wait_us in steps:
            self.write_ordered(address, value)
            time.sleep(wait_us / 1e6)

    def write_ordered(self, address: int, value: int) -> None:
        """Write a word of the bus. A read after it keeps the order of writes and their distance in time.

        Raises:
            WireError: it cannot be sent, or the board does not answer.
        """
        self._link.write(address, [value])
        self._link.read(address, 1)

    def write_dram(self, address: int, data: np.ndarray) -> None:
        """Write uint8[bytes] to DRAM, as `write` says."""
        self.write(self.file.map.memory + address, data)

    def read_dram(self, address: int, size: int) -> np.ndarray:
        """Return uint8[size] of DRAM, on which two reads agree; `size` is a multiple of WORD_BYTES."""
        words = self.words(self.file.map.memory + address, size // WORD_BYTES)
        return np.array(words, WORD).view(np.uint8)

    def holds(self, address: int, data: np.ndarray) -> bool:
        """Return whether DRAM holds uint8[bytes] at `address`, as one read of each word says."""
        words, longest = data.view(WORD).tolist(), self._link.longest
        try:
            return all(
                self._link.read(self.file.map.memory + address + WORD_BYTES * first, len(part)) == part
                for first in range(0, len(words), longest)
                if (part := words[first : first + longest])
            )
        except WireError:
            self.settle()
            return False

    # Runs.

    def begin(self) -> None:
        """Wait for a run of an earlier client, and enable the interrupt.

        Raises:
            DeviceLostError: the board does not answer, or its run does not end.
        """
        self._wait_until_idle()

        def enable() -> None:
            self.write_register("INTERRUPT_ENABLE", 1)
            if not self.is_alive():
                raise WireError("INTERRUPT_ENABLE does not keep 1")

        self.again(enable)

    def is_alive(self) -> bool:
        """Return whether the board was not reset since `begin`."""
        return self.words(self.file.map.registers + OFFSETS["INTERRUPT_ENABLE"], 1) == [1]

    def require_alive(self) -> None:
        """Refuse to go on after a reset.

        Raises:
            DeviceLostError: the board was reset, or does not answer.
        """
        if not self.is_alive():
            raise DeviceLostError(f"board {self.file.board.name} at {self._link.where}: {RESET}")

    def start(self, address: int, count: int) -> None:
        """Start a run of the `count` instructions at byte `address` of DRAM.

        Raises:
            WireError: a write of this method was lost or damaged; the run may have started.
            DeviceLostError: the board was reset.
        """
        self._wait_until_idle()
        self.write_register("CONTROL", Control.CLEAR_INTERRUPT)
        values = stream_values(address, count)
        for name, value in values.items():
            self.write_register(name, value)
        snapshot = self.snapshot()
        self._check_enabled(snapshot)
        if snapshot.status & Status.INTERRUPT or any(
            snapshot.values[name] != values[name] for name in values
        ):
            raise WireError("the registers do not keep what was written")
        self.write_register("CONTROL", Control.START)

    def wait(self) -> Snapshot:
        """Wait for the end of the run that was started; return the registers after it.

        Raises:
            WireError: no run was started: the write of CONTROL was lost or damaged.
            DeviceLostError: the board was reset, does not answer, or the run does not end in time.
        """
        snapshot = self._wait_until_idle()
        self._check_enabled(snapshot)
        if not snapshot.status & Status.INTERRUPT:
            raise WireError("CONTROL.START has not arrived")
        return snapshot

    def _check_enabled(self, snapshot: Snapshot) -> None:
        if not snapshot.values["INTERRUPT_ENABLE"]:
            raise DeviceLostError(f"board {self.file.board.name} at {self._link.where}: {RESET}")

    def _wait_until_idle(self) -> Snapshot:
        """Return the registers once nothing runs."""
        end, wait = time.monotonic() + self.file.link.run_seconds, SHORTEST_WAIT
        while self.again(self._is_running):
            if time.monotonic() > end:
                raise DeviceLostError(
                    f"board {self.file.board.name}: the run has not ended in "
                    f"{self.file.link.run_seconds:g} s; reset the board, and run again"
                )
            time.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)
        return self.snapshot()

    def _is_running(self) -> bool:
        """Return whether one of two reads says that a run is in progress."""
        status = self.file.map.registers + OFFSETS["STATUS"]
        reads = [self._link.read(status, 1)[0] for _ in range(2)]
        return any(read & Status.RUNNING for read in reads)
