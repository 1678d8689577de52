"""The components of the core: how each is built alone, and what its size depends on.

The area of a core is estimated as the sum of its components (`vdla.explore.silicon`). Components of one kind
with equal features and memories count as equal hardware. The size of a kind is close to linear in its
features, and in what a family makes of its memories (`vdla.explore.silicon.model`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from amaranth.hdl import Shape, ShapeLike
from amaranth.lib import wiring
from amaranth.utils import ceil_log2

from vdla.hw.alu import NARROW_MULTIPLIER_BITS, makes_products_of_logic
from vdla.hw.banks import banks_of, memory_of
from vdla.hw.block_walk import plan_layout
from vdla.hw.control import Registers, RunControl
from vdla.hw.dispatch import Dispatch
from vdla.hw.dma import Dma
from vdla.hw.fetch import Fetch
from vdla.hw.gather import gathers
from vdla.hw.gemm import registers_after
from vdla.hw.halves import HALVES, has_halves
from vdla.hw.load import LoadUnit
from vdla.hw.loader import LoadEngine
from vdla.hw.normalise import Normaliser
from vdla.hw.packing import packing
from vdla.hw.pipeline import Pipeline
from vdla.hw.queue import Queue, is_one_lut_ram
from vdla.hw.row_scale import EXPONENT_BITS
from vdla.hw.row_statistics import sums_layout
from vdla.hw.sequencer import Sequencer
from vdla.hw.signatures import fetched_layout, has_shadow, lanes, request_layout, shadow
from vdla.hw.slots import has_source_slots, slot_layout, turns
from vdla.hw.sources import sources
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.isa import NORMAL_ROWS
from vdla.hw.spec.memories import loaded_by, scratchpads_of, unread_by_steps
from vdla.hw.spec.normalisation import INTERVAL_BITS, MANTISSA_BITS, SUM_BITS
from vdla.hw.spec.numerics import BYTE_BITS, MULTIPLIER_BITS, SHIFT_BITS
from vdla.hw.spec.timing import (
    BURSTS_FETCHED_AHEAD,
    BURSTS_STORED_AHEAD,
    LOADS_IN_PROGRESS,
    NORMAL_SETS,
    STORE_READ_STAGES,
    STORE_REQUESTS_AHEAD,
    given_stage,
    retire_stage,
    store_read_stages,
    store_stages,
)
from vdla.hw.spec.vocabulary import (
    AluOpcode,
    Extension,
    MemoryType,
    Unit,
)
from vdla.hw.store import StoreUnit
from vdla.hw.store_beats import burst_layout, output_beat_layout, read_layout
from vdla.hw.tokens import TokenCounter
from vdla.hw.uop_guard import UopGuard
from vdla.hw.window import input_groups

PARAMETER_BITS = MULTIPLIER_BITS + SHIFT_BITS + 3 * BYTE_BITS  # of a requantised value, without the bias
FORWARDING_LUTS = (3, 3, 2, 1)
"""Choices before each bit of the ALU's second operand: of its first piece, its second, and so on."""
NARROW_PRODUCT_BITS = 8
"""Widest products that may be made of LUTs, on families where DSP blocks are wide."""


@dataclass(frozen=True, slots=True)
class MemoryShape:
    """A memory inside a component.

    Attributes:
        depth: words.
        bits: of a word.
        lanes: parts of a word that are written alone.
    """

    depth: int
    bits: int
    lanes: int = 1


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
        _dispatch(config),
        _dma(config),
        *_queues(config),
        *_tokens(config),
        *_scratchpads(config),
        _load_unit(config),
        _loader(config),
        _guard(config),
        _sequencer(config),
        _pipeline(config),
        *_store_units(config),
    )


def _fetch(config: AcceleratorConfig) -> Component:
    depth = BURSTS_FETCHED_AHEAD * config.burst_bytes // config.instruction_bytes
    bits = _width(fetched_layout(config))
    features = {
        "address": config.address_bits,
        "held": max(0, config.instruction_bits - config.bus_bits),
        "chooses": config.bus_bits > config.instruction_bits,
        "wide": max(0, config.bus_bits - config.instruction_bits),
        "level": ceil_log2(depth + 1),
        "opcodes": len(config.alu_opcodes),
    }
    return Component("fetch", "fetch", features, lambda: Fetch(config), _queue_memory(depth, bits))


def _dispatch(config: AcceleratorConfig) -> Component:
    return Component(
        "dispatch", "dispatch", {"instruction": config.instruction_bits}, lambda: Dispatch(config)
    )


def _dma(config: AcceleratorConfig) -> Component:
    tag = 2 + int(request_layout(config)["beats"].width)
    features = {
        "request": config.address_bits + tag,
        "level": ceil_log2(config.max_requests + 1),
        "bus": config.bus_bits,
    }
    return Component("dma", "dma", features, lambda: Dma(config), _queue_memory(config.max_requests, tag))


def _queues(config: AcceleratorConfig) -> tuple[Component, ...]:
    return tuple(
        _queue(config, name, getattr(config, f"{name}_depth"))
        for name in ("load_queue", "compute_queue", "store_queue")
    )


def _queue(config: AcceleratorConfig, name: str, depth: int) -> Component:
    return Component(
        name,
        "queue",
        {"level": ceil_log2(depth + 1), "instruction": config.instruction_bits},
        lambda: Queue(config.instruction_bits, depth),
        _queue_memory(depth, config.instruction_bits),
    )


def _tokens(config: AcceleratorConfig) -> tuple[Component, ...]:
    features = {"count": ceil_log2(config.token_depth + 1)}
    edges = ("load_to_compute", "compute_to_load", "compute_to_store", "store_to_compute")
    return tuple(
        Component(edge, "tokens", features, lambda: TokenCounter(config.token_depth)) for edge in edges
    )


def _scratchpads(config: AcceleratorConfig) -> tuple[Component, ...]:
    pads = {memory.name.lower(): memory for memory in scratchpads_of(config)}
    if has_shadow(config):
        pads["out"] = shadow(config)
    pads.pop(MemoryType.TABLE.name.lower(), None)  # the store unit has copies of it
    return tuple(_scratchpad(config, name, memory) for name, memory in pads.items())


def _scratchpad(config: AcceleratorConfig, name: str, memory: MemoryType) -> Component:
    halves = HALVES if memory in (MemoryType.ACC, MemoryType.OUT) and has_halves(config) else 1
    banks = banks_of(config) if memory is MemoryType.INP else 1
    bits, parts = config.element_bits(memory), halves * banks
    shape = MemoryShape(config.depth(memory) // parts, bits, lanes(config, memory))
    features = {
        "lanes": shape.lanes,
        "halved": bits * (halves > 1),
        "banked": bits * config.window.rows * (banks - 1),
    }
    return Component(
        f"{name}_scratchpad", "scratchpad", features, lambda: memory_of(config, memory), (shape,) * parts
    )


def _queue_memory(depth: int, bits: int) -> tuple[MemoryShape, ...]:
    """Return the memory of a queue, if it has any: two items are held in registers alone."""
    if is_one_lut_ram(depth):
        return (MemoryShape(depth, bits),)
    return (MemoryShape(depth - 1, bits),) if depth > 2 else ()


def _writes(config: AcceleratorConfig, unit: Unit) -> dict[str, float]:
    """Return what the size of a load engine depends on."""
    memories = loaded_by(unit, config)
    elements = [each.element_bits(config) for each in sources(config, memories)]
    return {
        "address": config.address_bits,
        "bus": config.bus_bits,
        "instruction": config.instruction_bits,
        "sram": config.sram_base_bits,
        "index": sum(config.index_bits(memory) for memory in memories),
        "choice": sum(config.bus_bits - bits for bits in elements if bits < config.bus_bits),
        "parts": sum(max(1, bits // config.bus_bits) for bits in elements),
        "burst": ceil_log2(config.burst_bytes),
        "padding": config.bus_bits * config.has(Extension.PAD_MINIMUM),
        "pad_value": config.bus_bits * config.has(Extension.PAD_VALUE),
        "plan": _width(plan_layout(config, memories)),
        "gather": config.element_bits(MemoryType.INP) * gathers(config, memories),
        "gather_bus": config.bus_bits * gathers(config, memories),
    }


def _load_unit(config: AcceleratorConfig) -> Component:
    features = _writes(config, Unit.LOAD)
    return Component(
        "load_unit", "load_unit", features, lambda: LoadUnit(config), _started_memory(config, Unit.LOAD)
    )


def _started_memory(config: AcceleratorConfig, unit: Unit) -> tuple[MemoryShape, ...]:
    """Return the memory of the LOADs that a load engine has started and not begun to write."""
    return _queue_memory(LOADS_IN_PROGRESS - 1, _width(plan_layout(config, loaded_by(unit, config))))


def _loader(config: AcceleratorConfig) -> Component:
    return Component(
        "compute_unit.loader",
        "loader",
        _writes(config, Unit.COMPUTE) | _widened(config),
        lambda: LoadEngine(config, loaded_by(Unit.COMPUTE, config)),
        _started_memory(config, Unit.COMPUTE),
    )


def _widened(config: AcceleratorConfig) -> dict[str, float]:
    """Return what the write port of the accumulators depends on: its bits, and the bits that a beat of narrow
    values fills with different data."""
    wide = config.element_bits(MemoryType.ACC)
    return {"wide": wide, "extended": min(wide, config.bus_bits * config.acc_bits // config.out_bits)}


def _guard(config: AcceleratorConfig) -> Component:
    features = {
        "sram": config.sram_base_bits,
        "uop": config.index_bits(MemoryType.UOP),
        "others": len(unread_by_steps(config)),
        "halves": has_halves(config),
    }
    return Component("compute_unit.guard", "uop_guard", features, lambda: UopGuard(config))


def _index_bits(config: AcceleratorConfig) -> int:
    acc, inp, wgt = (config.index_bits(memory) for memory in (MemoryType.ACC, MemoryType.INP, MemoryType.WGT))
    return acc + max(acc, inp) + wgt


def _sequencer(config: AcceleratorConfig) -> Component:
    features = {
        "index": _index_bits(config),
        "uop": config.index_bits(MemoryType.UOP),
        "turns": ceil_log2(turns(config)),
        "rows": _index_bits(config) * config.has(Extension.DEPTHWISE),
        "taken": not has_shadow(config),
        "sources": has_source_slots(config),
    }
    return Component("compute_unit.sequencer", "sequencer", features, lambda: Sequencer(config))


def _pipeline(config: AcceleratorConfig) -> Component:
    values, opcodes = config.batch * config.block_out, set(config.alu_opcodes)
    bits, product = values * config.acc_bits, config.inp_bits + config.wgt_bits
    pairs = values * config.block_in // 2 if config.packed_bits else 0
    lane_bits = bits // config.alu_pieces
    slides, groups = config.has(Extension.DEPTHWISE), input_groups(config)
    factors = 3 if config.acc_bits > NARROW_MULTIPLIER_BITS else 1
    multiplies, of_logic = AluOpcode.MUL in opcodes, makes_products_of_logic(config)
    features = {
        "values": bits,
        "results": bits * bool(opcodes),
        "choice": 2 * (bits - lane_bits) * bool(opcodes),
        "forwarded": lane_bits
        * sum(FORWARDING_LUTS[: config.alu_pieces])
        * bool(opcodes and has_shadow(config)),
        "fetched": bits * has_source_slots(config),
        "stored": config.index_bits(MemoryType.ACC)
        * given_stage(config.operand_stages)
        * (not has_shadow(config)),
        "shifts": lane_bits * (AluOpcode.SHR in opcodes),
        "compares": lane_bits * bool(opcodes & {AluOpcode.MIN, AluOpcode.MAX}),
        "sums": lane_bits * (AluOpcode.ADD in opcodes),
        "staged": lane_bits * (config.alu_stages - 1) * bool(opcodes & {AluOpcode.SHR, AluOpcode.MUL}),
        "multipliers": values // config.alu_pieces * (factors - of_logic) * multiplies,
        "logic_products": config.batch * of_logic * multiplies,
        "products": values * config.block_in / (2 if config.packed_bits else 1),
        "pairs": pairs,
        "low_bits": pairs * packing(config).overlap ** 2 if config.packed_bits else 0,
        "narrow_products": values * config.block_in * (product <= NARROW_PRODUCT_BITS),
        "adders": values * (config.block_in - 1) * (product + 1),
        "saved_carries": values * _carry_saved(config) * (product + 1),
        "window": config.batch * config.inp_bits * (groups * config.window.inputs + config.block_in) * slides,
        "window_sums": config.batch * groups * config.inp_bits * slides * bool(config.packed_bits),
        "slots": _width(slot_layout(config)) * retire_stage(config.operand_stages),
    }
    return Component("compute_unit.pipeline", "pipeline", features, lambda: Pipeline(config))


def _carry_saved(config: AcceleratorConfig) -> int:
    """Return the terms of a column, more than two each, of sums without registers inside.

    Synthesis adds such terms up by carry-save adders, which take more LUTs than one adder for each term.
    """
    levels = (config.block_in - 1).bit_length()
    *after, _ = registers_after(config.gemm_stages, levels)
    registered = [level for level, count in enumerate(after) if level == 0 or count]
    return sum((2 ** (end - start) - 2) << (levels - end) for start, end in pairwise([*registered, levels]))


def _store_units(config: AcceleratorConfig) -> tuple[Component, ...]:
    """Return the store unit, and apart from it what NORMALISE adds to it."""
    if not config.has(Extension.NORMALISE):
        return (_store_unit(config),)
    others = tuple(other for other in config.extensions if other is not Extension.NORMALISE)
    return _store_unit(config.with_changes(extensions=others)), _normaliser(config)


def _normaliser(config: AcceleratorConfig) -> Component:
    at_once, values = config.values_per_store_read, config.block_out
    features = {"lanes": at_once, "choice": (values - at_once) * (MULTIPLIER_BITS + SUM_BITS)}
    sets = (MULTIPLIER_BITS * values, SUM_BITS * values, EXPONENT_BITS, SUM_BITS, SUM_BITS)
    memories = (
        *(MemoryShape(NORMAL_SETS, bits) for bits in sets),
        MemoryShape(NORMAL_ROWS, BYTE_BITS),
        MemoryShape(NORMAL_ROWS, _width(sums_layout())),
        MemoryShape(2 << INTERVAL_BITS, MANTISSA_BITS + INTERVAL_BITS),
    )
    return Component("store_unit.normaliser", "normaliser", features, lambda: Normaliser(config), memories)


def _store_unit(config: AcceleratorConfig) -> Component:
    requantises = config.has(Extension.REQUANTISE)
    at_once, values = config.values_per_store_read, config.batch * config.block_out
    others = values - at_once
    wide = config.acc_bits > NARROW_MULTIPLIER_BITS
    read_stages = store_read_stages(config.acc_ports, config.operand_stages)
    depth = (
        BURSTS_STORED_AHEAD * config.burst_beats + store_stages(config.effective_extensions, read_stages) - 1
    )
    ahead = STORE_REQUESTS_AHEAD + store_stages(config.effective_extensions) - 1
    features = {
        "requantises": requantises,
        "lanes": requantises * at_once * (config.acc_bits + MULTIPLIER_BITS),
        "multipliers": requantises * at_once * (2 if wide else 1),
        "kept": requantises * values * config.acc_bits,
        "choice": others * (2 * config.acc_bits + PARAMETER_BITS if requantises else config.out_bits),
        "gathered": config.bus_bits - 8 * config.store_read_bytes,
        "bus": config.bus_bits,
        "waiting": ceil_log2(config.max_requests + 1),
        "instruction": config.instruction_bits,
        "sram": config.sram_base_bits,
        "lent": config.index_bits(MemoryType.ACC) * bool(config.alu_opcodes and has_shadow(config)),
        "taken": not has_shadow(config),
        "read_stages": _width(read_layout(config)) * (read_stages - STORE_READ_STAGES),
        "tables": at_once * config.has(Extension.TABLE),
        "residuals": at_once * config.has(Extension.RESIDUAL),
        "residual_choice": config.has(Extension.RESIDUAL) * (values + others) * config.out_bits,
    }
    memories = (
        *_tables(config),
        *_queue_memory(depth, _width(output_beat_layout(config))),
        *_queue_memory(ahead, _width(burst_layout(config))),
        *_queue_memory(config.max_requests, 3),
    )
    return Component("store_unit", "store_unit", features, lambda: StoreUnit(config), memories)


def _tables(config: AcceleratorConfig) -> tuple[MemoryShape, ...]:
    """Return the copies of TABLE, one for each lane."""
    if not config.has(Extension.TABLE):
        return ()
    shape = MemoryShape(config.depth(MemoryType.TABLE), config.element_bits(MemoryType.TABLE))
    return (shape,) * config.values_per_store_read


def _width(layout: ShapeLike) -> int:
    return int(Shape.cast(layout).width)
