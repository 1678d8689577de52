"""Small machines and programs for the tests of the functional model."""

from collections.abc import Iterable, Sequence

import numpy as np

from vdla.hw.spec import codec, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.decoded import decode_stream
from vdla.sim.functional import Machine, counters

CONFIG = TINY.with_changes(
    name="test", uop_buffer_bytes=64, inp_buffer_bytes=64, wgt_buffer_bytes=256, acc_buffer_bytes=256
)
"""1 x 4 x 4, 16 elements in each scratchpad."""

UOP, WGT, INP, ACC, OUT, ACC_8BIT, TABLE, RES = MemoryType


def stream_of(instructions: Iterable[isa.Instruction], config: AcceleratorConfig = CONFIG) -> np.ndarray:
    """Return uint8[n, instruction_bytes]."""
    return np.frombuffer(codec.to_bytes(instructions, config), np.uint8).reshape(-1, config.instruction_bytes)


def machine_with(
    config: AcceleratorConfig = CONFIG, *, uops: Sequence[isa.MicroOp] = (isa.MicroOp(),), **contents: object
) -> Machine:
    """Return a machine whose scratchpads begin with `contents`, by memory: nested lists of elements."""
    machine = Machine(config)
    machine.pads.uop[: len(uops)] = np.frombuffer(codec.uops_to_bytes(uops, config), machine.pads.uop.dtype)
    for name, values in contents.items():
        array = getattr(machine.pads, name)
        given = np.asarray(values, array.dtype).reshape(-1, *array.shape[1:])
        array[: len(given)] = given
    machine.pads.refresh_operands()
    return machine


def run(
    machine: Machine,
    *instructions: isa.Instruction,
    dram: np.ndarray | None = None,
    native: bool = True,
    seed: int | None = None,
) -> dict[str, int]:
    """Run `instructions` and FINISH."""
    stream = stream_of((*instructions, isa.Finish()), machine.config)
    memory = np.zeros(4096, np.uint8) if dram is None else dram
    program = decode_stream(stream, machine.config)
    return counters(program, machine.run(program, memory, native=native, seed=seed))


def load(memory: MemoryType, **fields: int) -> isa.Load:
    """Return a LOAD of one element, or as `fields` say."""
    return isa.Load(**{"memory_type": memory, "y_size": 1, "x_size": 1, "x_stride": 1, **fields})


def store(**fields: int) -> isa.Store:
    """Return a STORE of one element, or as `fields` say."""
    return isa.Store(**{"memory_type": OUT, "y_size": 1, "x_size": 1, "x_stride": 1, **fields})


def gemm(**fields: int) -> isa.Gemm:
    """Return a GEMM of one step, or as `fields` say."""
    return isa.Gemm(**{"uop_end": 1, "iter_out": 1, "iter_in": 1, **fields})


def alu(operation: isa.AluOpcode, **fields: int) -> isa.Alu:
    """Return an ALU instruction of one step, or as `fields` say."""
    return isa.Alu(**{"alu_opcode": operation, "uop_end": 1, "iter_out": 1, "iter_in": 1, **fields})
