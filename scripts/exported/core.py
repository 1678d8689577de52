"""The C of a module as a program of the RISC-V core of a simulated board.

The program and the accelerator's memory go to the board over its serial port. The core then runs the network
alone: it waits for commands in a mailbox (`core.c`).
"""

import shutil
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from exported.board import CODES, HERE, NAME, Answer, main_source, run
from vdla.boards.board_file import BoardFile
from vdla.boards.simulated import simulate
from vdla.boards.soc import CORE_MEMORY, CORE_MEMORY_BYTES
from vdla.export.files import files_of
from vdla.hw.spec.extras import require_package
from vdla.hw.spec.sdram import AnyMemory
from vdla.runtime.devices.board.driver import Driver
from vdla.runtime.devices.board.link import WORD_BYTES, open_link
from vdla.runtime.module.plan import Plan

STACK_BYTES = 8192
SECONDS = 600.0
"""Limit of time of a command; the simulation runs a few hundred thousand cycles in a second."""
PAUSE = 0.02  # between two looks at the mailbox, which cost the core cycles of the bus
PARTS = ("core", "rintf")
"""C files beside the files of the module and of its platform."""
INIT, RUN = 1, 2
ENTRY, COMMAND, STATUS, CYCLES, CORE_CYCLES, IN, OUT = range(7)
"""Words of the mailbox."""
HEADER, SEGMENT, LOADED = struct.Struct("<24x2I12x2H"), struct.Struct("<6I8x"), 1
"""Of an ELF file of 32 bits: entry, offset, size and number of segments; of a segment: type, offset, address,
physical address, bytes in the file, and in memory. Type of a segment that is loaded."""


@dataclass(frozen=True)
class CoreAnswer(Answer):
    """The outcome of a call on a core.

    Attributes:
        core_cycles: from the command to the end of the call.
    """

    core_cycles: int


class CoreProgram:
    """The C of a module on the core of a simulated board, which ends with the context.

    Attributes:
        memory: model of the board's memory, with which the cycle device predicts the accelerator's cycles.
        code_bytes: of the core's memory that the program takes, without the stack.

    Raises:
        RuntimeError: the C does not compile, or the program has no room in the core's memory.
        ToolError: a package of the simulation is missing.
    """

    def __init__(self, plan: Plan, folder: Path) -> None:
        self._plan = plan
        self._simulation = simulate(plan.config, core=True)
        file = self._simulation.file
        try:
            program = build(plan, folder, file)
            self._driver = Driver(file, open_link(file.link))
            self.code_bytes = self._load(program.read_bytes())
        except BaseException:
            self._simulation.close()
            raise
        self.memory: AnyMemory = file.target.memory

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._driver.close()
        self._simulation.close()

    def init(self) -> CoreAnswer:
        """Initialise the network."""
        return self._call(INIT, {})

    def run(self, inputs: Mapping[str, np.ndarray]) -> CoreAnswer:
        """Run the network."""
        places = self._buffers(IN, len(self._plan.inputs))
        for name, place in zip(self._plan.inputs, places, strict=True):
            self._put(place, inputs[name].tobytes())
        outputs = self._buffers(OUT, len(self._plan.outputs))
        return self._call(RUN, dict(zip(self._plan.outputs, outputs, strict=True)))

    def _load(self, program: bytes) -> int:
        """Initialise DRAM, write a program and start it; return the bytes in the core's memory."""
        self._driver.initialise()
        code_bytes = 0
        for address, data in segments(program):
            self._put(address, data)
            code_bytes += len(data) * (CORE_MEMORY <= address < CORE_MEMORY + CORE_MEMORY_BYTES)
        self._write(ENTRY, HEADER.unpack_from(program)[0])
        return code_bytes

    def _call(self, command: int, outputs: Mapping[str, int]) -> CoreAnswer:
        """Give a command, wait for its end, and read outputs at these addresses."""
        self._write(COMMAND, command)
        limit = time.monotonic() + SECONDS
        while self._driver.words(CORE_MEMORY + WORD_BYTES * COMMAND, 1) != [0]:
            if time.monotonic() > limit:
                raise RuntimeError(
                    f"the core has not ended command {command} in {SECONDS:g} s; if the network needs more, "
                    "raise SECONDS in scripts/exported/core.py"
                )
            time.sleep(PAUSE)
        mailbox = self._mailbox()
        arrays = {name: self._output(name, place) for name, place in outputs.items()}
        return CoreAnswer(CODES[mailbox[STATUS]], mailbox[CYCLES], arrays, mailbox[CORE_CYCLES])

    def _output(self, name: str, address: int) -> np.ndarray:
        """Return the output of that name, whose buffer is at an address."""
        value = self._plan.outputs[name]
        size = int(np.prod(value.shape)) * np.dtype(value.dtype).itemsize
        return np.frombuffer(self._get(address, size), value.dtype).reshape(value.shape)

    def _buffers(self, table: int, count: int) -> list[int]:
        """Return the addresses of inputs or outputs, of a table of addresses and sizes."""
        return self._driver.words(self._mailbox()[table], 2 * count)[::2]

    def _mailbox(self) -> list[int]:
        return self._driver.words(CORE_MEMORY, OUT + 1)

    def _write(self, word: int, value: int) -> None:
        self._put(CORE_MEMORY + WORD_BYTES * word, struct.pack("<I", value))

    def _get(self, address: int, size: int) -> bytes:
        """Return bytes from any address; the bus has words."""
        before = address % WORD_BYTES
        words = self._driver.words(address - before, -(-(before + size) // WORD_BYTES))
        return struct.pack(f"<{len(words)}I", *words)[before : before + size]

    def _put(self, address: int, data: bytes) -> None:
        """Write bytes to any address; the other bytes of their words stay."""
        before, end = address % WORD_BYTES, address + len(data)
        kept = self._get(address - before, before), self._get(end, -end % WORD_BYTES)
        self._driver.write(address - before, np.frombuffer(data.join(kept), np.uint8))


def segments(program: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the address and the contents of each part of an ELF file that is loaded."""
    _, first, size, count = HEADER.unpack_from(program)
    for number in range(count):
        kind, offset, address, _, filled, _ = SEGMENT.unpack_from(program, first + size * number)
        if kind == LOADED and filled:
            yield address, program[offset : offset + filled]


def build(plan: Plan, folder: Path, file: BoardFile) -> Path:
    """Write the C of a module, compile it for the core of a board, and return the program.

    Raises:
        RuntimeError: it does not compile; the message is the compiler's.
        ToolError: the compiler is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    script = "".join(f"{name} = {value:#x};\n" for name, value in _memories(file).items())
    texts = {"main.c": main_source(plan), "program.ld": script + (HERE / "core.ld").read_text()}
    for name, text in (files_of(plan, NAME) | texts).items():
        (folder / name).write_text(text)
    for name in (*(f"{each}.c" for each in PARTS), "shim.h"):
        shutil.copy(HERE / name, folder)
    zig, cc = _tools()
    defines = " ".join(f"-D{name}={value:#x}" for name, value in _addresses(file).items())
    make = ["make", "-C", folder, f"CC={' '.join(cc)}", f"AR={' '.join(zig)} ar", f"CPPFLAGS={defines}"]
    objects = ["main.o", *(f"{each}.o" for each in PARTS), f"lib{NAME}.a"]
    run([*make, *objects])
    program = folder / "program"
    options = ["-O2", "-Wl,--gc-sections", f"-Wl,-T,{folder / 'program.ld'}", "-o", program]
    run([*cc, *options, *(folder / name for name in objects)])
    return program


def _memories(file: BoardFile) -> dict[str, int]:
    """Return the symbols of the linker script."""
    return {
        "core_origin": CORE_MEMORY,
        "core_bytes": CORE_MEMORY_BYTES,
        "dram_origin": file.map.memory,
        "dram_bytes": file.map.memory_bytes,
        "stack_bytes": STACK_BYTES,
    }


def _addresses(file: BoardFile) -> dict[str, int]:
    """Return the macros of the C: addresses of registers, and what turns addresses into the accelerator's."""
    return {
        "VDLA_BASE": file.map.registers,
        "VDLA_PHYSICAL_OFFSET": -file.map.memory % (1 << 64),
        "UPTIME_LATCH": file.csr["timer0_uptime_latch"],
        "UPTIME_CYCLES": file.csr["timer0_uptime_cycles"],
    }


def _tools() -> tuple[list[str], list[str]]:
    """Return the commands of Zig and of its C compiler for the core, RV32IM without operating system.

    The compiler's run-time library has all functions of the C library that the C needs, but one (`rintf.c`).
    The headers come from musl, which the package has.
    """
    require_package("ziglang", "C for the core")
    headers = files("ziglang").joinpath("lib", "libc", "include")
    zig = [sys.executable, "-m", "ziglang"]
    folders = (str(headers / name) for name in ("riscv32-linux-musl", "generic-musl"))
    paths = [part for name in folders for part in ("-isystem", name)]
    return zig, [*zig, "cc", "-target", "riscv32-freestanding", "-mcpu=generic_rv32+m", *paths]
