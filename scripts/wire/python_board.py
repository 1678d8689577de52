"""A board in Python behind a socket: UARTBone, registers, DRAM, and a device of the kit as its accelerator.

It stands in for an FPGA where the simulation of the whole system would take too long. Its DRAM works only
after the initialisation, and a reset makes its contents random.
"""

import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from threading import RLock, Thread
from types import TracebackType
from typing import Self

import numpy as np
from exported.board import RAISED, Accelerator

from vdla.boards.board_file import BoardFile, BoardTable, LinkTable, MapTable, MemoryTable
from vdla.hw.spec import target_files
from vdla.hw.spec.isa import Finish
from vdla.hw.spec.registers import OFFSETS, Control, Status
from vdla.hw.spec.target import Target
from vdla.runtime.devices.checked import CheckedDevice
from vdla.runtime.devices.registry import device_of

REGISTERS, MEMORY, CONTROLS = 0x3000_0000, 0x4000_0000, 0xF000_0000
RESET = 0x100  # offset of the register that resets the board
STEPS = ((CONTROLS, 2, 10), (CONTROLS + 4, 0x32, 0), (CONTROLS + 8, 3, 20), (CONTROLS, 1, 0))
WRITES, READS = {1: 4, 3: 0}, {2: 4, 4: 0}
"""Commands of UARTBone, with the bytes from one address to the next."""
HEADER_BYTES, WORD_BYTES = 6, 4
ENDLESS = 1 << 30  # words of a command of length 0
UNMAPPED = 0xFFFF_FFFF
QUIET_MS = 20.0
WORD_MASK = 0xFFFF_FFFF


class _Core(Accelerator):
    """The registers of an accelerator with interrupt and counters."""

    def write(self, offset: int, value: int) -> None:
        """Write a register; CONTROL acts."""
        registers = self.registers
        if offset == OFFSETS["CONTROL"] and value & Control.CLEAR_INTERRUPT:
            registers["STATUS"] &= ~int(Status.INTERRUPT)
        if offset in (OFFSETS["CONTROL"], *(OFFSETS[name] for name in _WRITABLE)):
            super().write(offset, value)

    def _run(self) -> None:
        """Run in a thread: the board answers meanwhile. START has no effect while a run is in progress."""
        if not self.registers["STATUS"] & Status.RUNNING:
            self.registers["STATUS"] = int(Status.RUNNING)
            Thread(target=self._execute, daemon=True).start()

    def _execute(self) -> None:
        registers = self.registers
        address = registers["STREAM_ADDRESS"] | registers["STREAM_ADDRESS_HIGH"] << 32
        counters: dict[str, int] = {}
        registers |= {"FAULT": 0, "FAULT_INDEX": 0, "CYCLES": 0, "CYCLES_HIGH": 0}
        try:
            result = self.device.run(address, registers["STREAM_COUNT"])
            counters = dict(result.counters)
            counters |= {
                "CYCLES": (result.cycles or 0) & WORD_MASK,
                "CYCLES_HIGH": (result.cycles or 0) >> 32,
            }
            status = Status.DONE
        except tuple(RAISED) as error:
            registers["FAULT"] = int(RAISED[type(error)])
            registers["FAULT_INDEX"] = getattr(error, "index", None) or 0
            status = Status.DONE | Status.FAULT
        except Exception:  # a stream that only a damaged wire can have produced
            registers["FAULT"], status = 1, Status.DONE | Status.FAULT
        raised = Status.INTERRUPT if registers["INTERRUPT_ENABLE"] & 1 else Status(0)
        registers |= {**counters, "STATUS": int(status | raised)}


_WRITABLE = ("INTERRUPT_ENABLE", "STREAM_ADDRESS", "STREAM_ADDRESS_HIGH", "STREAM_COUNT")


class PythonBoard:
    """A board that listens on a port of this machine while its context lasts.

    Args:
        target: what it holds.
        memory_bytes: of its DRAM.
        device: name of the device that runs the streams.

    Attributes:
        file: its board file.
        initialisations: how many times its DRAM was initialised.
        written: words that were written into its DRAM.
    """

    def __init__(self, target: Target, memory_bytes: int = 1 << 20, device: str = "cycle") -> None:
        self._target, self._device_name = target, device
        self._device = device_of(device, target, memory_bytes)
        assert isinstance(self._device, CheckedDevice), f"{device} has no DRAM on this machine"
        self._dram = self._device.dram
        self._words = self._dram.view("<u4")
        self._device.execute([Finish()])  # compiles the simulator, where that was not done before
        self._server = socket.create_server(("127.0.0.1", 0))
        self._thread = Thread(target=self._serve, daemon=True)
        self._buffer, self._command, self._last = bytearray(), (0, 0, 0), 0.0
        self._lock = RLock()  # of the proxy's thread, which may reset the board
        self._connection: socket.socket | None = None
        self.initialisations = self.written = 0
        config = target.config
        self.file = BoardFile(
            board=BoardTable(
                name="python",
                clock_mhz=target.clock_mhz,
                config_digest=config.digest,
                digest="0" * 64,
                target=target_files.to_toml(target),
            ),
            link=LinkTable(
                kind="uartbone",
                port=f"socket://127.0.0.1:{self._server.getsockname()[1]}",
                baud=1_000_000,
                quiet_ms=QUIET_MS,
                answer_seconds=0.5,
                run_seconds=60.0,
            ),
            map=MapTable(registers=REGISTERS, memory=MEMORY, memory_bytes=memory_bytes),
            memory=MemoryTable(kind="SDR", part="Python", init=STEPS),
        )
        self.reset()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.disconnect()
        self._thread.join()

    def disconnect(self) -> None:
        """Close the connection of the client, as if the cable was pulled."""
        if self._connection is not None:
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)

    def reset(self) -> None:
        """Reset the board: registers are cleared, DRAM is random and has to be initialised again."""
        with self._lock:
            self._core = _Core(self._device)
            self._done = 0
            self._dram[:] = np.random.default_rng(1).integers(0, 256, self._dram.size, np.uint8)
            self._controls: dict[int, int] = {}

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._connection = connection
            with connection, suppress(OSError):
                while data := connection.recv(4096):
                    with self._lock:
                        self._take(data, connection)

    def _take(self, data: bytes, connection: socket.socket) -> None:
        """Take received bytes; drop a command in part after silence."""
        now = time.monotonic()
        if now - self._last > QUIET_MS / 1000:
            self._buffer.clear()
            self._command = (0, 0, 0)
        self._last = now
        self._buffer += data
        while self._step(connection):
            pass

    def _step(self, connection: socket.socket) -> bool:
        """Perform the next part of a command; return whether its bytes were there."""
        step, left, address = self._command
        if left:
            if len(self._buffer) < WORD_BYTES:
                return False
            self._write(address, int.from_bytes(self._buffer[:WORD_BYTES], "big"))
            del self._buffer[:WORD_BYTES]
            self._command = (step, left - 1, address + step)
            return True
        if len(self._buffer) < HEADER_BYTES:
            return False
        code, length = self._buffer[0], self._buffer[1] or ENDLESS
        address = WORD_BYTES * int.from_bytes(self._buffer[2:HEADER_BYTES], "big") & WORD_MASK
        del self._buffer[:HEADER_BYTES]
        if code in WRITES:
            self._command = (WRITES[code], length, address)
        elif code in READS:
            words = [self._read(address + READS[code] * place) for place in range(min(length, 256))]
            connection.sendall(b"".join(word.to_bytes(WORD_BYTES, "big") for word in words))
        return True

    def _read(self, address: int) -> int:
        if REGISTERS <= address < REGISTERS + WORD_BYTES * len(OFFSETS):
            return self._core.read(address - REGISTERS)
        if MEMORY <= address < MEMORY + self.file.map.memory_bytes:
            return int(self._words[(address - MEMORY) // WORD_BYTES]) if self._is_ready() else UNMAPPED
        return self._controls.get(address, 0)

    def _write(self, address: int, value: int) -> None:
        if REGISTERS <= address < REGISTERS + WORD_BYTES * len(OFFSETS):
            if self._is_ready() or address != REGISTERS + OFFSETS["CONTROL"]:
                self._core.write(address - REGISTERS, value)
        elif MEMORY <= address < MEMORY + self.file.map.memory_bytes:
            if self._is_ready():
                self._words[(address - MEMORY) // WORD_BYTES] = value
                self.written += 1
        elif address == CONTROLS + RESET:
            self.reset()
        elif CONTROLS <= address < CONTROLS + RESET:
            self._control(address, value)

    def _control(self, address: int, value: int) -> None:
        """Write a control register; DRAM is ready after STEPS in their order."""
        self._controls[address] = value
        steps: Sequence[tuple[int, int, int]] = STEPS
        if self._done < len(steps) and (address, value) == steps[self._done][:2]:
            self._done += 1
            self.initialisations += self._done == len(steps)
        else:
            self._done = int((address, value) == steps[0][:2])

    def _is_ready(self) -> bool:
        return self._done == len(STEPS)
