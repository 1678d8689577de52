"""The components that the core is made of: how each is built alone, and what its size depends on.

The area of a core is estimated as the sum of its components (`vdla.explore.silicon`). Components of one kind
with equal features and memories count as equal hardware. The size of a kind is close to linear in its
features, and in what a family makes of its memories (`vdla.explore.silicon.memory_blocks`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from amaranth.hdl import Shape, ShapeLike
from amaranth.lib import wiring
from amaranth.utils import ceil_log2

from vdla.hw.control import Registers, RunControl
from vdla.hw.dispatch import Dispatch
from vdla.hw.dma import Dma
from vdla.hw.fetch import Fetch
from vdla.hw.load import LoadUnit
from vdla.hw.loader import LoadEngine
from vdla.hw.pipeline import Pipeline
from vdla.hw.queue import Queue
from vdla.hw.requantise import lanes_per_read
from vdla.hw.scratchpad import Scratchpad
from vdla.hw.sequencer import Sequencer, slot_layout
from vdla.hw.signatures import lanes, request_layout, shadow, write_beat_layout
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memories import SCRATCHPADS, loaded_by
from vdla.hw.spec.numerics import MULTIPLIER_BITS
from vdla.hw.spec.timing import (
    BURSTS_FETCHED_AHEAD,
    BURSTS_STORED_AHEAD,
    LOADS_IN_PROGRESS,
    STORE_REQUESTS_AHEAD,
    retire_stage,
    store_stages,
)
from vdla.hw.spec.vocabulary import (
    INSTRUCTION_BITS,
    INSTRUCTION_BYTES,
    AluOpcode,
    Extension,
    MemoryType,
    Unit,
)
from vdla.hw.store import StoreUnit
from vdla.hw.store_beats import burst_layout
from vdla.hw.tokens import TokenCounter

NARROW_MULTIPLIER_BITS = 18
"""Widest factors of one DSP block of ECP5; wider products take several."""

NARROW_PRODUCT_BITS = 8
"""Widest products that may be made of LUTs, on families where DSP blocks are wide."""


@dataclass(frozen=True, slots=True)
class MemoryShape:
    """A memory inside a component.

    Attributes:
        depth: words.
        bits: of a word.
        lanes: parts of a word that are written alone.
        transparent: a read of the word being written gives the new value.
    """

    depth: int
    bits: int
    lanes: int = 1
    transparent: bool = True


@dataclass(frozen=True, slots=True)
class Component:
    """One component of a core.

    Attributes:
        name: in the core.
        kind: what it is; components of one kind share a model.
        features: what the size of its kind is linear in.
        memories: inside it.
        build: makes it, alone.
    """

    name: str
    kind: str
    features: Mapping[str, float]
    build: Callable[[], wiring.Component]
    memories: tuple[MemoryShape, ...] = ()


def components(config: AcceleratorConfig) -> tuple[Component, ...]:
    """Return the components of a core."""
    return (
        Component("registers", "registers", {"address": config.address_bits}, lambda: Registers(config)),
        Component("control", "control", {}, RunControl),
        _fetch(config),
        Component("dispatch", "dispatch", {"opcodes": len(config.alu_opcodes)}, lambda: Dispatch(config)),
        _dma(config),
        *_queues(config),
        *_tokens(config),
        *_scratchpads(config),
        _load_unit(config),
        _loader(config),
        _sequencer(config),
        _pipeline(config),
        _store_unit(config),
    )


def _fetch(config: AcceleratorConfig) -> Component:
    depth = BURSTS_FETCHED_AHEAD * config.burst_bytes // INSTRUCTION_BYTES
    features = {
        "address": config.address_bits,
        "held": max(0, INSTRUCTION_BITS - config.bus_bits),
        "chooses": config.bus_bits > INSTRUCTION_BITS,
        "wide": max(0, config.bus_bits - INSTRUCTION_BITS),
        "level": ceil_log2(depth + 1),
    }
    return Component(
        "fetch", "fetch", features, lambda: Fetch(config), (MemoryShape(depth, INSTRUCTION_BITS),)
    )


def _dma(config: AcceleratorConfig) -> Component:
    tag = 2 + int(request_layout(config)["beats"].width)
    features = {
        "request": config.address_bits + tag,
        "level": ceil_log2(config.max_requests + 1),
    }
    return Component("dma", "dma", features, lambda: Dma(config), (MemoryShape(config.max_requests, tag),))


def _queues(config: AcceleratorConfig) -> tuple[Component, ...]:
    return tuple(
        _queue(name, getattr(config, f"{name}_depth"))
        for name in ("load_queue", "compute_queue", "store_queue")
    )


def _queue(name: str, depth: int) -> Component:
    return Component(
        name,
        "queue",
        {"level": ceil_log2(depth + 1)},
        lambda: Queue(INSTRUCTION_BITS, depth),
        (MemoryShape(depth, INSTRUCTION_BITS),),
    )


def _tokens(config: AcceleratorConfig) -> tuple[Component, ...]:
    features = {"count": ceil_log2(config.token_depth + 1)}
    edges = ("load_to_compute", "compute_to_load", "compute_to_store", "store_to_compute")
    return tuple(
        Component(edge, "tokens", features, lambda: TokenCounter(config.token_depth)) for edge in edges
    )


def _scratchpads(config: AcceleratorConfig) -> tuple[Component, ...]:
    pads = {memory.name.lower(): memory for memory in SCRATCHPADS} | {"out": shadow(config)}
    return tuple(_scratchpad(config, name, memory) for name, memory in pads.items())


def _scratchpad(config: AcceleratorConfig, name: str, memory: MemoryType) -> Component:
    shape = MemoryShape(
        config.depth(memory), config.element_bits(memory), lanes(config, memory), transparent=False
    )
    return Component(
        f"{name}_scratchpad",
        "scratchpad",
        {"lanes": shape.lanes},
        lambda: Scratchpad(config, memory),
        (shape,),
    )


def _writes(config: AcceleratorConfig, unit: Unit) -> dict[str, float]:
    """Return what the size of a load engine depends on."""
    memories = loaded_by(unit)
    elements = [config.element_bits(memory) for memory in memories]
    return {
        "address": config.address_bits,
        "bus": config.bus_bits,
        "index": sum(config.index_bits(memory) for memory in memories),
        "choice": sum(config.bus_bits - bits for bits in elements if bits < config.bus_bits),
        "parts": sum(max(1, bits // config.bus_bits) for bits in elements),
        "burst": ceil_log2(config.burst_bytes),
        "padding": config.bus_bits * config.has(Extension.PAD_MINIMUM),
    }


def _load_unit(config: AcceleratorConfig) -> Component:
    memories = (MemoryShape(LOADS_IN_PROGRESS, INSTRUCTION_BITS),)
    return Component("load_unit", "load_unit", _writes(config, Unit.LOAD), lambda: LoadUnit(config), memories)


def _loader(config: AcceleratorConfig) -> Component:
    return Component(
        "compute_unit.loader",
        "loader",
        _writes(config, Unit.COMPUTE) | {"wide": config.element_bits(MemoryType.ACC)},
        lambda: LoadEngine(config, loaded_by(Unit.COMPUTE)),
        (MemoryShape(LOADS_IN_PROGRESS, INSTRUCTION_BITS),),
    )


def _index_bits(config: AcceleratorConfig) -> int:
    acc, inp, wgt = (config.index_bits(memory) for memory in (MemoryType.ACC, MemoryType.INP, MemoryType.WGT))
    return acc + max(acc, inp) + wgt


def _sequencer(config: AcceleratorConfig) -> Component:
    features = {"index": _index_bits(config), "uop": config.index_bits(MemoryType.UOP)}
    return Component("compute_unit.sequencer", "sequencer", features, lambda: Sequencer(config))


def _pipeline(config: AcceleratorConfig) -> Component:
    values, opcodes = config.batch * config.block_out, set(config.alu_opcodes)
    bits, product = values * config.acc_bits, config.inp_bits + config.wgt_bits
    factors = 3 if config.acc_bits > NARROW_MULTIPLIER_BITS else 1
    features = {
        "values": bits,
        "shifts": bits * (AluOpcode.SHR in opcodes),
        "compares": bits * bool(opcodes & {AluOpcode.MIN, AluOpcode.MAX}),
        "sums": bits * (AluOpcode.ADD in opcodes),
        "multipliers": values * factors * (AluOpcode.MUL in opcodes),
        "products": values * config.block_in,
        "narrow_products": values * config.block_in * (product <= NARROW_PRODUCT_BITS),
        "adders": values * (config.block_in - 1) * (product + 1),
        "slots": _width(slot_layout(config)) * retire_stage(config.gemm_stages),
    }
    return Component("compute_unit.pipeline", "pipeline", features, lambda: Pipeline(config))


def _store_unit(config: AcceleratorConfig) -> Component:
    requantises = config.has(Extension.REQUANTISE)
    at_once, values = lanes_per_read(config), config.batch * config.block_out
    others = values - at_once
    wide = config.acc_bits > NARROW_MULTIPLIER_BITS
    depth = BURSTS_STORED_AHEAD * config.burst_beats + store_stages(requantises) - 1
    ahead = STORE_REQUESTS_AHEAD + store_stages(requantises) - 1
    features = {
        "requantises": requantises,
        "lanes": requantises * at_once * (config.acc_bits + MULTIPLIER_BITS),
        "multipliers": requantises * at_once * (2 if wide else 1),
        "kept": requantises * values * config.acc_bits,
        "choice": others * (5 * config.acc_bits if requantises else config.out_bits),
        "bus": config.bus_bits,
        "waiting": ceil_log2(config.max_requests + 1),
    }
    memories = (
        MemoryShape(depth, _width(write_beat_layout(config))),
        MemoryShape(ahead, _width(burst_layout(config))),
        MemoryShape(config.max_requests, 3),
    )
    return Component("store_unit", "store_unit", features, lambda: StoreUnit(config), memories)


def _width(layout: ShapeLike) -> int:
    return int(Shape.cast(layout).width)
