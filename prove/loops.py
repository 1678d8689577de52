"""The instructions of a stream, and the steps of their loops, which follow from fields and micro-ops.

Streams repeat loops, so the steps of `KNOWN_LOOPS` loops are kept.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import fields
from functools import lru_cache
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.prove.indices import (
    Gathered,
    LoopFactors,
    Product,
    Rows,
    Steps,
    depthwise_rows,
    gathered,
    last_of_each,
    levels,
    products,
    steps_of,
)
from vdla.sim.access import uop_column
from vdla.sim.decoded import DecodedStream, slots

Indices = NDArray[np.int64]
KNOWN_LOOPS = 512
LOOP_FACTORS = (
    "dst_factor_out",
    "dst_factor_in",
    "src_factor_out",
    "src_factor_in",
    "wgt_factor_out",
    "wgt_factor_in",
    "stride_2",
    "more_rows",
    "wide",
    "row_step",
)


class LoopKey(NamedTuple):
    """What the steps of a loop instruction follow from.

    Attributes:
        config: the accelerator.
        form: of the instruction.
        uops: its encoded micro-ops, int64, as bytes.
        iter_out, iter_in: trips of its loops.
        factors: its fields of `LOOP_FACTORS`; 0 where the form has none.
    """

    config: AcceleratorConfig
    form: type[isa.Gemm | isa.Alu | isa.Depthwise]
    uops: bytes
    iter_out: int
    iter_in: int
    factors: tuple[int, ...]

    @classmethod
    def of(
        cls, config: AcceleratorConfig, it: isa.Gemm | isa.Alu | isa.Depthwise, uops: Indices
    ) -> "LoopKey":
        """Return the key of an instruction; `uops` are the micro-ops on chip, int64[depth]."""
        factors = tuple(getattr(it, name, 0) for name in LOOP_FACTORS)
        chosen = uops[it.uop_begin : it.uop_end].tobytes()
        return cls(config, type(it), chosen, it.iter_out, it.iter_in, factors)


def _columns(key: LoopKey) -> tuple[Indices, Indices, Indices]:
    """Return dst, src and wgt of the micro-ops of an instruction."""
    uops = np.frombuffer(key.uops, np.int64)
    dst, src, wgt = (uop_column(uops, name, key.config) for name in ("dst", "src", "wgt"))
    return dst, src, wgt


def _loop(key: LoopKey) -> dict[str, int]:
    factors = dict(zip(LOOP_FACTORS, key.factors, strict=True))
    return {"iter_out": key.iter_out, "iter_in": key.iter_in, **factors}


@lru_cache(KNOWN_LOOPS)
def loop_steps(key: LoopKey) -> Steps:
    """Return the steps of a GEMM or ALU instruction."""
    return steps_of(LoopFactors(**_loop(key)), _columns(key))


@lru_cache(KNOWN_LOOPS)
def loop_products(key: LoopKey, overwrite: bool) -> list[Product]:
    """Return the matrix products of a GEMM; of products that replace each other, only the last."""
    steps = loop_steps(key)
    return products(steps.chosen(last_of_each(steps.dst)) if overwrite else steps)


@lru_cache(KNOWN_LOOPS)
def loop_gathered(key: LoopKey) -> list[Gathered] | None:
    """Return the steps of a MIN or MAX by destinations; None if their order counts."""
    return gathered(loop_steps(key))


@lru_cache(KNOWN_LOOPS)
def loop_levels(key: LoopKey, immediate: bool) -> list[Indices]:
    """Return the steps of an ALU instruction, in groups that run at once."""
    steps = loop_steps(key)
    return levels(steps.dst, steps.dst if immediate else steps.src)


@lru_cache(KNOWN_LOOPS)
def loop_rows(key: LoopKey, overwrite: bool) -> list[Rows]:
    """Return the sums of a DEPTHWISE, in groups whose accumulators differ."""
    rows = depthwise_rows(LoopFactors(**_loop(key)), _columns(key), key.config.window)
    chosen = [last_of_each(rows.dst)] if overwrite else levels(rows.dst, rows.dst)
    return [rows.chosen(group) for group in chosen]


def instructions_of(program: DecodedStream, order: list[int]) -> Iterator[tuple[int, isa.Instruction]]:
    """Yield instructions with their positions, from the columns of a stream that has been verified."""
    opcodes = program.opcode[order]
    instructions = np.empty(len(order), object)
    for opcode in np.unique(opcodes).tolist():
        places = np.flatnonzero(opcodes == opcode)
        rows = program.table[np.array(order)[places]]
        instructions[places] = _of_form(isa.BY_OPCODE[isa.Opcode(opcode)], rows, program.config)
    yield from zip(order, instructions.tolist(), strict=True)


def _of_form(form: type[isa.Instruction], rows: Indices, config: AcceleratorConfig) -> list[isa.Instruction]:
    """Return instructions of a form, by their rows int64[n, columns].

    Each field is set in all instructions at once: the constructor of a frozen class takes much longer. The
    fields that the configuration does not have are 0.
    """
    instructions = [object.__new__(form) for _ in range(len(rows))]
    names = dict.fromkeys((*slots(form, config), *(declared.name for declared in fields(form))))
    for name, column in zip(names, chain(rows.T.tolist(), repeat(repeat(0))), strict=False):
        deque(map(getattr(form, name).__set__, instructions, column), maxlen=0)
    return instructions
