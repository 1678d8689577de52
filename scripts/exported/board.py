"""The C of a module as a program of this machine, in front of a device of the kit.

The program sees registers through a pipe, and copies of its memory reach the device's DRAM only where the
driver flushes or invalidates them: the device is an accelerator without cache coherence.
"""

import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from vdla.export.c_text import C_TYPES, identifiers
from vdla.export.files import OK, errors, files_of
from vdla.export.image import Image, image_of
from vdla.hw.spec import errors as kit
from vdla.hw.spec.children import end, start
from vdla.hw.spec.registers import IDENTITY, OFFSETS, VERSION, Control, Fault, Status
from vdla.runtime.device import Device
from vdla.runtime.devices.registry import device_of
from vdla.runtime.module.plan import Plan

HERE = Path(__file__).parent
NAME = "net"
SANITIZERS = "-O0 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
POLL_LIMIT = 50
GAP = 1 << 16  # bytes between the regions
CODES = dict(enumerate((OK, *errors())))
RAISED: dict[type[Exception], Fault] = {
    kit.InvalidInstructionError: Fault.INVALID_INSTRUCTION,
    kit.DeadlockError: Fault.DEADLOCK,
    kit.UnfinishedError: Fault.UNFINISHED,
    kit.AccessError: Fault.MEMORY_ERROR,
}
"""The fault of the hardware for each error of a device."""


class Accelerator:
    """The registers of an accelerator whose runs a device carries out.

    Attributes:
        registers: by name.
        ends: whether runs end.
        fault: faults that each run reports, unless the device raises an error.
    """

    def __init__(self, device: Device) -> None:
        self.device, self.ends, self.fault = device, True, Fault(0)
        self.registers = {
            **dict.fromkeys(OFFSETS, 0),
            "IDENTITY": IDENTITY,
            "VERSION": VERSION,
            "CONFIG_DIGEST": int(device.config.digest[:8], 16),
        }
        self._names = {offset: name for name, offset in OFFSETS.items()}

    def read(self, offset: int) -> int:
        """Return the value of the register at an offset."""
        return self.registers[self._names[offset]]

    def write(self, offset: int, value: int) -> None:
        """Write a register; CONTROL acts."""
        name = self._names[offset]
        if name != "CONTROL":
            self.registers[name] = value
        elif value & Control.START:
            self._run()

    def _run(self) -> None:
        registers = self.registers
        registers["STATUS"] = int(Status.RUNNING)
        if not self.ends:
            return
        address = registers["STREAM_ADDRESS"] | registers["STREAM_ADDRESS_HIGH"] << 32
        fault, cycles = self.fault, 0
        try:
            cycles = self.device.run(address, registers["STREAM_COUNT"]).cycles or 0
        except tuple(RAISED) as error:
            fault = RAISED[type(error)]
        registers |= {"FAULT": int(fault), "CYCLES": cycles & 0xFFFFFFFF, "CYCLES_HIGH": cycles >> 32}
        registers["STATUS"] = int(Status.DONE | (Status.FAULT if fault else Status(0)))


@dataclass(frozen=True)
class Answer:
    """The outcome of a call.

    Attributes:
        code: name of the error code.
        cycles: of the accelerator.
        outputs: arrays by name; empty after the initialisation.
    """

    code: str
    cycles: int
    outputs: Mapping[str, np.ndarray]


class Program:
    """A compiled program with the C of a module, and its accelerator.

    Args:
        bases: bus addresses of tensors and image; None: where the device has room.
    """

    def __init__(
        self, plan: Plan, binary: Path, device: str = "functional", bases: tuple[int, int] | None = None
    ) -> None:
        tensors, image = bases or regions(image_of(plan))
        dram_bytes = max(regions(image_of(plan))) + plan.dram_bytes + GAP
        self.accelerator = Accelerator(device_of(device, plan.target, dram_bytes))
        self._plan = plan
        options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self._process = start([binary, hex(tensors), hex(image)], **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        end(self._process)

    def init(self) -> Answer:
        """Initialise the network."""
        self._send(b"I")
        return self._answer({})

    def run(self, inputs: Mapping[str, np.ndarray]) -> Answer:
        """Run the network."""
        self._send(b"X" + b"".join(inputs[name].tobytes() for name in self._plan.inputs))
        types = self._plan.outputs
        return self._answer({name: np.zeros(value.shape, value.dtype) for name, value in types.items()})

    def close(self) -> str:
        """End the program; return what it wrote to standard error.

        Raises:
            RuntimeError: its exit status is not 0.
        """
        text: str = self._process.communicate(b"Q")[1].decode()
        if self._process.returncode:
            raise RuntimeError(f"the program ended with {self._process.returncode}: {text}")
        return text

    def _answer(self, outputs: Mapping[str, np.ndarray]) -> Answer:
        """Serve the program until it answers."""
        serve: dict[bytes, Callable[[], None]] = {
            b"W": self._flush,
            b"R": self._invalidate,
            b"w": self._write,
            b"r": self._read,
        }
        while (kind := self._take(1)) != b"D":
            serve[kind]()
        code, cycles = struct.unpack("<iQ", self._take(12))
        taken = {
            name: np.frombuffer(self._take(x.nbytes), x.dtype).reshape(x.shape) for name, x in outputs.items()
        }
        return Answer(CODES[code], cycles, taken)

    def _flush(self) -> None:
        address, size = struct.unpack("<QQ", self._take(16))
        self.accelerator.device.copy_in(address, self._take(size))

    def _invalidate(self) -> None:
        address, size = struct.unpack("<QQ", self._take(16))
        self._send(self.accelerator.device.copy_out(address, size).tobytes())

    def _write(self) -> None:
        self.accelerator.write(*struct.unpack("<II", self._take(8)))

    def _read(self) -> None:
        (offset,) = struct.unpack("<I", self._take(4))
        self._send(struct.pack("<I", self.accelerator.read(offset)))

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)
        self._process.stdin.flush()

    def _take(self, size: int) -> bytes:
        assert self._process.stdout is not None
        data: bytes = self._process.stdout.read(size)
        if len(data) < size:
            self.close()
            raise RuntimeError("the program closed its output")
        return data


def regions(image: Image) -> tuple[int, int]:
    """Return bus addresses of tensors and image: in another order than the placement."""
    first = -(-GAP // image.alignment) * image.alignment
    second = first + image.image.size + -(-GAP // image.alignment) * image.alignment
    return second, first


def build(plan: Plan, folder: Path, flags: str = SANITIZERS) -> Path:
    """Write the C of a module, compile it with warnings as errors, and return the program.

    Raises:
        RuntimeError: it does not compile; the message is the compiler's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (files_of(plan, NAME) | {"main.c": main_source(plan)}).items():
        (folder / name).write_text(text)
    for name in ("shim.c", "shim.h"):
        shutil.copy(HERE / name, folder)
    limit = f"CPPFLAGS=-DVDLA_POLL_LIMIT={POLL_LIMIT}u"
    run(["make", "-C", folder, f"CFLAGS={flags}", limit, "PLATFORM=shim.c", f"lib{NAME}.a", "main.o"])
    program = folder / "program"
    run([*compiler(), *flags.split(), "-o", program, folder / "main.o", folder / f"lib{NAME}.a", "-lm"])
    return program


def compiler() -> list[str]:
    """Return the C compiler: CC, else cc."""
    return os.environ.get("CC", "cc").split()


def run(words: Iterable[str | Path]) -> str:
    """Run a tool; return what it printed.

    Raises:
        RuntimeError: it fails; the message is what it wrote to standard error.
    """
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return done.stdout


def main_source(plan: Plan) -> str:
    """Return the program: buffers of inputs and outputs, and the calls that `shim.c` makes."""
    buffers, members = _buffers(plan)
    return f"""#include "{NAME}.h"
#include "shim.h"

{buffers}
const struct buffer regions[2] = {{
    {{{NAME}_tensors, sizeof {NAME}_tensors}}, {{{NAME}_image, sizeof {NAME}_image}},
}};

int board_init(void)
{{
    return {NAME}_init();
}}

int board_run(void)
{{
    const struct {NAME}_inputs inputs = {{{members["in"]}}};
    const struct {NAME}_outputs outputs = {{{members["out"]}}};

    return {NAME}_run(&inputs, &outputs);
}}

uint64_t board_cycles(void)
{{
    return {NAME}_cycles();
}}

int main(int argc, char **argv)
{{
    return serve(argc, argv);
}}
"""


def _buffers(plan: Plan) -> tuple[str, dict[str, str]]:
    """Return the definitions of buffers and their tables, and the names of buffers by "in" and "out"."""
    definitions, members, tables = "", {}, ""
    for kind, types in (("in", plan.inputs), ("out", plan.outputs)):
        names = identifiers(types)
        for name, value in types.items():
            definitions += (
                f"static {C_TYPES[value.dtype]} {kind}_{names[name]}[{value_count(value.shape)}];\n"
            )
        members[kind] = ", ".join(f"{kind}_{each}" for each in names.values())
        rows = ", ".join(f"{{{kind}_{each}, sizeof {kind}_{each}}}" for each in names.values())
        tables += f"const struct buffer {kind}[] = {{{rows}}};\nconst size_t {kind}_count = {len(names)};\n"
    return definitions + tables, members


def value_count(shape: tuple[int, ...]) -> int:
    """Return the elements of a shape."""
    return int(np.prod(shape))
