"""The configurations whose components the shipped store holds, and the designs that check the estimates.

Each grid point differs from `BASE` in a few things, and is measured for the kinds of component that this
touches: that is what a linear model needs.
"""

from dataclasses import dataclass
from typing import Any

from vdla.hw.components import Component, components
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import DEFAULT, ECP5_25F, ECP5_85F, SMALL, TINY, ZYNQ_7020
from vdla.hw.spec.vocabulary import AluOpcode, Extension

KIB = 1 << 10
BASE = TINY.with_changes(name="base", block_out=2, alu_lanes=0, alu_stages=1, acc_ports=2, requantise_lanes=0)
ENGINES = "fetch dma load_unit loader store_unit"
INSTRUCTIONS = "fetch load_unit loader store_unit"
"""Engines whose size depends on the width of an instruction, or of `sram_base`."""
WRITERS = "load_unit loader store_unit"
NO_REQUANTISE = (Extension.PAD_MINIMUM, Extension.OVERWRITE)
DEPTHWISE = (*NO_REQUANTISE, Extension.REQUANTISE, Extension.DEPTHWISE)
TABLE = (*NO_REQUANTISE, Extension.REQUANTISE, Extension.TABLE)
RESIDUAL = (*NO_REQUANTISE, Extension.REQUANTISE, Extension.RESIDUAL)
PAD_VALUE = (*NO_REQUANTISE, Extension.REQUANTISE, Extension.PAD_VALUE)
GATHER = (*NO_REQUANTISE, Extension.REQUANTISE, Extension.GATHER)
ACC_HALVES = (*NO_REQUANTISE, Extension.REQUANTISE, Extension.ACC_HALVES)
LARGE = {"inp_buffer_bytes": 8 * KIB, "wgt_buffer_bytes": 8 * KIB, "acc_buffer_bytes": 16 * KIB}


@dataclass(frozen=True, slots=True)
class GridPoint:
    """A configuration, and the kinds of its components to measure; none: all of them."""

    config: AcceleratorConfig
    kinds: tuple[str, ...] = ()

    def components(self) -> tuple[Component, ...]:
        """Return the components to measure."""
        return tuple(part for part in components(self.config) if not self.kinds or part.kind in self.kinds)


def _point(kinds: str = "", **changes: Any) -> GridPoint:
    """Return a point: `kinds` with blanks between, and what differs from BASE."""
    return GridPoint(BASE.with_changes(**changes), tuple(kinds.split()))


GRID = (
    _point(),
    _point("pipeline store_unit loader", block_out=4),
    _point("pipeline store_unit loader load_unit dispatch", extensions=()),
    _point("pipeline load_unit", block_in=16, wgt_buffer_bytes=32 * KIB, inp_buffer_bytes=16 * KIB),
    _point("pipeline load_unit loader store_unit sequencer", **LARGE),
    _point(ENGINES, bus_bits=128),
    _point(ENGINES, bus_bits=256, extensions=NO_REQUANTISE),
    _point(ENGINES, burst_bytes=64),
    _point("store_unit dma", max_requests=64, extensions=NO_REQUANTISE),
    _point("pipeline store_unit loader", acc_bits=16),
    _point("pipeline dispatch", alu_opcodes=(AluOpcode.MIN, AluOpcode.MAX, AluOpcode.ADD)),
    _point("pipeline", alu_opcodes=(AluOpcode.MIN, AluOpcode.MAX, AluOpcode.ADD, AluOpcode.SHR)),
    _point("pipeline", alu_opcodes=(AluOpcode.ADD,)),
    _point("sequencer", alu_lanes=1, alu_stages=2),
    _point("sequencer pipeline store_unit", acc_ports=1),
    _point("sequencer pipeline store_unit", acc_ports=1, alu_lanes=1, alu_stages=2, **LARGE),
    _point("sequencer pipeline store_unit", acc_ports=1, alu_opcodes=(), extensions=NO_REQUANTISE),
    _point("pipeline", acc_ports=1, block_out=8, alu_lanes=2, alu_stages=2, acc_buffer_bytes=16 * KIB),
    _point("store_unit", acc_ports=1, block_out=8, requantise_lanes=2, acc_buffer_bytes=32 * KIB),
    _point("pipeline store_unit", acc_ports=1, gemm_stages=7),
    _point("pipeline", alu_lanes=1, alu_stages=2),
    _point("pipeline", alu_stages=2),
    _point("pipeline", block_out=8, alu_lanes=1, alu_stages=2),
    _point("pipeline", block_in=8, block_out=16, alu_lanes=1, alu_stages=2, **LARGE),
    _point("pipeline", block_in=16, block_out=8, alu_lanes=2, alu_stages=2, packed=18, **LARGE),
    _point("pipeline", block_in=16, block_out=16, alu_lanes=4, alu_stages=2, packed=18, **LARGE),
    _point("pipeline", block_in=8, block_out=4, packed=18),
    _point("pipeline sequencer", block_in=8, block_out=8, extensions=DEPTHWISE),
    _point("pipeline", block_in=8, block_out=8, packed=18, extensions=DEPTHWISE),
    _point("pipeline", block_in=16, block_out=16, alu_lanes=2, extensions=DEPTHWISE, **LARGE),
    _point("pipeline", block_in=8, block_out=8, packed=25),
    *(
        _point("store_unit", block_out=columns, requantise_lanes=lanes, acc_buffer_bytes=32 * KIB)
        for columns, lanes in ((2, 1), (4, 2), (8, 1), (16, 2), (16, 4))
    ),
    _point("store_unit loader uop_guard", extensions=TABLE),
    _point("store_unit loader", extensions=RESIDUAL),
    _point("store_unit", block_out=8, requantise_lanes=4, acc_buffer_bytes=32 * KIB, extensions=TABLE),
    _point("store_unit", block_out=8, requantise_lanes=4, acc_buffer_bytes=32 * KIB, extensions=RESIDUAL),
    _point("pipeline", gemm_stages=7),
    _point("pipeline", block_in=8, inp_bits=4, wgt_bits=4),
    _point("store_unit loader", block_out=16, extensions=NO_REQUANTISE, acc_buffer_bytes=32 * KIB),
    _point(
        "load_unit loader registers dma fetch",
        block_out=32,
        block_in=32,
        wgt_buffer_bytes=64 * KIB,
        acc_buffer_bytes=64 * KIB,
    ),
    _point("load_unit loader", extensions=PAD_VALUE),
    _point("load_unit loader", block_in=8, block_out=8, bus_bits=128, extensions=PAD_VALUE),
    _point("load_unit", extensions=GATHER),
    _point("load_unit", block_in=16, inp_buffer_bytes=16 * KIB, extensions=GATHER),
    _point("load_unit", block_in=8, block_out=8, bus_bits=128, extensions=GATHER),
    _point("loader uop_guard scratchpad", extensions=ACC_HALVES),
    _point("scratchpad", block_out=8, acc_buffer_bytes=32 * KIB, extensions=ACC_HALVES),
    _point("fetch dma", bus_bits=512, burst_bytes=512),
    _point("sequencer uop_guard", uop_buffer_bytes=32 * KIB),
    _point(f"dispatch queue {INSTRUCTIONS}", uop_buffer_bytes=64 * KIB),
    _point(f"{INSTRUCTIONS} uop_guard", uop_buffer_bytes=1024 * KIB),
    _point("tokens", token_depth=3),
    _point("tokens", token_depth=4095),
    *(_point("queue", load_queue_depth=depth) for depth in (4, 8, 32, 48, 64, 128, 512)),
    _point("store_unit", block_out=16, acc_buffer_bytes=32 * KIB),
    _point("pipeline load_unit", block_in=2),
    _point("pipeline store_unit loader", block_out=8),
    _point("pipeline load_unit", block_in=8, block_out=4),
    _point("pipeline load_unit", block_in=8, block_out=8),
    _point("pipeline", block_in=2, block_out=16),
    _point("pipeline load_unit loader", block_in=16, block_out=16, **LARGE),
    _point("pipeline", block_in=8, gemm_stages=1),
    _point("pipeline", block_in=8, block_out=4, gemm_stages=2),
    _point("pipeline", block_in=16, block_out=4, gemm_stages=5),
    _point("pipeline", batch=2, block_in=8),
    _point("pipeline store_unit loader", block_in=8, block_out=8, acc_bits=16),
    _point("pipeline", block_out=8, alu_opcodes=(AluOpcode.ADD, AluOpcode.SHR)),
    _point("pipeline", block_out=4, alu_opcodes=(AluOpcode.MIN, AluOpcode.MAX, AluOpcode.ADD, AluOpcode.MUL)),
    _point("pipeline dispatch", block_out=4, alu_opcodes=(AluOpcode.MIN, AluOpcode.MAX, AluOpcode.SHR)),
    _point("pipeline", block_out=4, inp_bits=4, wgt_bits=4),
    _point(WRITERS, block_out=8, block_in=8, bus_bits=128, burst_bytes=128),
    _point(WRITERS, block_out=4, bus_bits=256),
    _point(WRITERS, block_out=16, block_in=16, bus_bits=256, acc_buffer_bytes=32 * KIB),
    _point(WRITERS, batch=2, block_out=4, block_in=4, bus_bits=512),
    _point("store_unit loader load_unit", block_out=8, extensions=()),
    _point("store_unit", block_out=4, bus_bits=128, extensions=()),
    _point("store_unit", block_out=2, acc_bits=16, burst_bytes=128, extensions=()),
    _point("store_unit dma", block_out=4, bus_bits=128, max_requests=64),
    _point("store_unit dma", bus_bits=256, max_requests=4),
    _point("store_unit dma", burst_bytes=128, max_requests=32),
    _point("store_unit fetch dma", burst_bytes=512),
    _point("fetch load_unit", burst_bytes=128),
    _point("fetch", burst_bytes=128, bus_bits=128),
    _point("fetch", burst_bytes=64, bus_bits=256),
    _point("scratchpad", batch=4, **LARGE),
    _point(
        "scratchpad uop_guard",
        uop_buffer_bytes=64,
        inp_buffer_bytes=64,
        wgt_buffer_bytes=256,
        acc_buffer_bytes=256,
    ),
)
LANES = ((4, 4, 4, 2), (8, 8, 4, 2), (8, 8, 4, 1), (8, 8, 1, 2))
"""Blocks, lanes and stages of the ALU of the pipelines that are routed: `block_in`, `block_out`, `alu_lanes`,
`alu_stages`."""

ROUTED_POINTS = (
    _point("fetch load_unit loader pipeline store_unit"),
    _point("pipeline", alu_lanes=1, alu_stages=2),
    *(
        GridPoint(
            SMALL.with_changes(block_in=rows, block_out=columns, alu_lanes=lanes, alu_stages=stages),
            ("pipeline",),
        )
        for rows, columns, lanes, stages in LANES
    ),
    GridPoint(SMALL, ("loader", "store_unit")),
)
"""Configurations, and the kinds of their components that are routed alone, where slowest paths may lie."""

DESIGNS = (
    TINY,
    SMALL,
    TINY.with_changes(
        name="least-2x2", block_in=2, block_out=2, inp_buffer_bytes=2 * KIB, wgt_buffer_bytes=2 * KIB
    ),
    TINY.with_changes(name="tiny-bus-128", bus_bits=128, max_requests=32),
    TINY.with_changes(name="tall-8x4", block_in=8, wgt_buffer_bytes=16 * KIB, inp_buffer_bytes=16 * KIB),
    TINY.with_changes(name="wide-4x8", block_out=8, acc_buffer_bytes=32 * KIB, wgt_buffer_bytes=8 * KIB),
    TINY.with_changes(name="batch-2x4x4", batch=2, acc_buffer_bytes=16 * KIB, load_queue_depth=64),
    TINY.with_changes(
        name="no-mul",
        alu_opcodes=(AluOpcode.MIN, AluOpcode.MAX, AluOpcode.ADD, AluOpcode.SHR),
        token_depth=15,
    ),
    TINY.with_changes(name="deep-16x4", block_in=16, gemm_stages=5, wgt_buffer_bytes=32 * KIB),
    TINY.with_changes(name="acc-16", acc_bits=16, extensions=(), store_queue_depth=64, burst_bytes=128),
    SMALL.with_changes(name="small-plain", extensions=(), gemm_stages=2, compute_queue_depth=128),
    SMALL.with_changes(
        name="small-bus-256",
        bus_bits=256,
        inp_buffer_bytes=32 * KIB,
        wgt_buffer_bytes=64 * KIB,
        max_requests=8,
    ),
    TINY.with_changes(name="tiny-one-stage", alu_lanes=0, alu_stages=1),
    TINY.with_changes(name="tiny-lanes", alu_lanes=0),
    ECP5_85F.with_changes(
        name="packed-8x16",
        block_in=8,
        block_out=16,
        inp_buffer_bytes=16 * KIB,
        wgt_buffer_bytes=32 * KIB,
        extensions=SMALL.extensions,
        alu_lanes=4,
    ),
    SMALL.with_changes(
        name="all-8x8",
        extensions=DEFAULT.extensions,
        bus_bits=256,
        max_requests=32,
        alu_lanes=4,
        acc_ports=2,
        requantise_lanes=8,
    ),
)
"""They change every parameter that a sweep is likely to change. None of them took part in a fit."""

SHOWN = (*DESIGNS, ECP5_25F, ECP5_85F, ZYNQ_7020, DEFAULT)
"""The designs that the pages show, with the devices' presets."""
