"""Faults of the hardware and findings of the verifier: a program that causes each, and what to do."""

from dataclasses import dataclass

import numpy as np

from vdla.hw.spec import codec
from vdla.hw.spec.assembly import parse_program
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ProgramError
from vdla.hw.spec.presets import DEFAULT, VTA
from vdla.hw.spec.registers import Fault
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.sim.decoded import decode_stream
from vdla.sim.verify.touch import BEYOND, BROKEN, CONFLICT, EMPTY, UNGATHERED
from vdla.sim.verify.verifier import describe, findings

DRAM_BYTES = 1 << 16
NORMALISING = DEFAULT.with_changes(name="normalising", extensions=(*DEFAULT.extensions, Extension.NORMALISE))


@dataclass(frozen=True)
class Cause:
    """A program that causes a fault or a finding.

    Attributes:
        program: assembly.
        remedy: what to do, in sentences.
        title: heading of a finding; a fault has its name.
        encoded_for: the configuration for which the program is encoded.
        runs_on: the configuration that runs or verifies it.
    """

    program: str
    remedy: str
    title: str = ""
    encoded_for: AcceleratorConfig = VTA
    runs_on: AcceleratorConfig = VTA

    @property
    def stream(self) -> bytes:
        """The encoded program."""
        return codec.to_bytes(parse_program(self.program), self.encoded_for)


FAULTS = {
    Fault.INVALID_INSTRUCTION: Cause(
        "GATHER(memory_type=INP, y_size=1, x_size=1, step=1)\nFINISH()",
        "Disassemble the stream with the configuration of the device: `vdla disasm FILE --config CONFIG`. If "
        "the instruction belongs to an extension, switch the extension on, or compile for this "
        "configuration. Else check STREAM_ADDRESS and STREAM_COUNT, and that the buffer was written before "
        "the start.",
        encoded_for=DEFAULT,
    ),
    Fault.UNFINISHED: Cause(
        "LOAD(memory_type=INP, y_size=1, x_size=1, x_stride=1)",
        "Append FINISH, or correct STREAM_COUNT: it counts instructions, not bytes.",
    ),
    Fault.SRAM_OVERRUN: Cause(
        "LOAD(memory_type=INP, sram_base=2047, y_size=1, x_size=2, x_stride=2)\nFINISH()",
        "Run the stream on the functional device, which names the instruction. Make the tile smaller or the "
        "scratchpad larger. A stream compiled for larger scratchpads must be compiled again. With the "
        "extension `acc_halves`, also check the promise `beside` with `vdla check`.",
    ),
    Fault.MEMORY_ERROR: Cause(
        "LOAD(memory_type=INP, dram_base=65536, y_size=1, x_size=1, x_stride=1)\nFINISH()",
        "Run the stream on the functional device, which names the instruction. `dram_base` counts elements, "
        "not bytes. Give the device more DRAM, or place the tensors lower. On an AXI bus, addresses of "
        "`axi_address_bits` must reach all tensors.",
    ),
    Fault.DEADLOCK: Cause(
        "LOAD(memory_type=INP, y_size=1, x_size=1, x_stride=1)\n"
        "GEMM(pop_prev=1, push_next=1, reset=1, uop_end=1, iter_out=1, iter_in=1)\n"
        "STORE(pop_prev=1, memory_type=OUT, y_size=1, x_size=1, x_stride=1)\n"
        "FINISH()",
        "Read the chain of waits in the message of the functional or the cycle device. It names the "
        "instruction that should push the token. `vdla check` prints the same without a run, `vdla trace` "
        "shows the run up to the deadlock, and `vdla debug` steps through it.",
    ),
}
"""Each fault of the register FAULT."""

FINDINGS = {
    CONFLICT: Cause(
        "LOAD(memory_type=UOP, y_size=1, x_size=1, x_stride=1)\n"
        "LOAD(memory_type=INP, y_size=1, x_size=1, x_stride=1)\n"
        "LOAD(memory_type=WGT, push_next=1, y_size=1, x_size=1, x_stride=1)\n"
        "GEMM(pop_prev=1, push_prev=1, uop_end=1, iter_out=1, iter_in=1)\n"
        "LOAD(memory_type=INP, y_size=1, x_size=1, x_stride=1)\n"
        "FINISH()",
        "Push the token that the message names from the earlier instruction, or from a later instruction of "
        "its unit. Pop it by the other instruction. The stream builder places tokens by itself.",
        "Unordered conflict",
    ),
    EMPTY: Cause(
        "STORE(memory_type=OUT, y_size=1, x_size=1, x_stride=1)\nFINISH()",
        "Write the element first: by a LOAD, or for accumulators by a GEMM with `reset`. Scratchpads are "
        "zero at the start of a device, but keep their contents from run to run.",
        "Read of an element that nothing has written",
    ),
    BEYOND: Cause(
        "LOAD(memory_type=INP, sram_base=2047, y_size=1, x_size=2, x_stride=2)\nFINISH()",
        "See [FAULT.SRAM_OVERRUN](#faultsram_overrun) and [FAULT.MEMORY_ERROR](#faultmemory_error).",
        "Access out of bounds",
    ),
    BROKEN: Cause(
        "LOAD(memory_type=UOP, y_size=1, x_size=1, x_stride=1)\n"
        "GEMM(reset=1, uop_end=1, iter_out=1, iter_in=1)\n"
        "LOAD(memory_type=ACC, sram_base=1, y_size=1, x_size=1, x_stride=1, beside=1)\n"
        "FINISH()",
        "Load elements of the other half of ACC, or leave `beside` out.",
        "Broken promise",
        encoded_for=DEFAULT,
        runs_on=DEFAULT,
    ),
    UNGATHERED: Cause(
        "LOAD(push_next=1, memory_type=ACC, y_size=1, x_size=4, x_stride=4)\n"
        "NORMALISE(pop_prev=1, memory_type=OUT, y_size=1, x_size=1, normal=1, statistic=MOMENTS)\n"
        "FINISH()",
        "Gather the statistic of all elements of the row first, by NORMALISEs without `normal`, the first of "
        "them with `anew`. POWERS also needs GREATEST of all elements. Statistics of earlier streams do not "
        "count.",
        "Use of a statistic that was not gathered",
        encoded_for=NORMALISING,
        runs_on=NORMALISING,
    ),
}
"""Each kind of finding of the verifier."""

OVERWRITE = Cause(
    "STORE(memory_type=OUT, dram_base=256, y_size=1, x_size=1, x_stride=1)\nFINISH()",
    "Place stream, micro-ops and outputs in DRAM apart from each other; `Device.allocate` does so.",
)
"""A stream that writes itself: a device puts the first stream at byte 4096."""


def raised(cause: Cause) -> ProgramError:
    """Return the error of the functional device that runs the program."""
    try:
        FunctionalDevice(cause.runs_on, DRAM_BYTES).execute(cause.stream)
    except ProgramError as error:
        return error
    raise ValueError(f"the program runs to its end:\n{cause.program}")


def described(kind: int) -> str:
    """Return the verifier's sentence about the program of a kind of finding."""
    cause = FINDINGS[kind]
    words = np.frombuffer(cause.stream, np.uint8).reshape(-1, cause.encoded_for.instruction_bytes)
    program = decode_stream(words, cause.runs_on)
    violations = findings(program, np.zeros(DRAM_BYTES, np.uint8))
    return next(describe(finding, program) for finding in violations if finding.kind == kind)
