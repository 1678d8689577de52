"""Faults planted in the streams and weights of a plan, of the kinds that a compiler makes.

Instructions are decoded, changed and encoded again before they are relocated. Every fault is a function of
the plan and a source of random numbers.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from vdla.hw.spec import codec, encoding, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import EncodingError
from vdla.hw.spec.vocabulary import AluOpcode, MemoryType
from vdla.runtime.module.plan import Plan
from vdla.runtime.stream.builder import Stream

SHIFTS = (-17, -3, -2, -1, 1, 2, 3, 17)
TRIES = 40
LOOPS = (isa.Gemm, isa.Alu, isa.Depthwise)
ROWS = (isa.Load, isa.Gather)
TOKENS = ("pop_prev", "pop_next", "push_prev", "push_next")
PADS = ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")


@dataclass(frozen=True)
class Fault:
    """A planted fault.

    Attributes:
        kind: one of `KINDS`.
        text: the change, as "launch0, instruction 7: LOAD.sram_base 3 -> 4".
        plan: the broken plan.
    """

    kind: str
    text: str
    plan: Plan


Change = tuple[Plan, str]


def planted(plan: Plan, kind: str, rng: Random) -> Fault | None:
    """Return a plan with a fault of a kind; None if the plan has nothing that it could change."""
    for _ in range(TRIES):
        try:
            change = KINDS[kind](plan, rng)
        except EncodingError:  # no instruction has this field value
            continue
        if change is not None:
            return Fault(kind, change[1], change[0])
    return None


def instructions_of(stream: Stream) -> list[isa.Instruction]:
    """Return the instructions of a stream, before they are relocated."""
    return [codec.decode(int.from_bytes(row.tobytes(), "little"), stream.config) for row in stream.words]


def with_instruction(stream: Stream, index: int, item: isa.Instruction) -> Stream:
    """Return a stream with another instruction.

    Raises:
        EncodingError: a field's value does not fit.
    """
    words = stream.words.copy()
    words[index] = np.frombuffer(codec.to_bytes([item], stream.config), np.uint64)
    return replace(stream, words=words)


def _changed(plan: Plan, rng: Random, names_of: Callable[[isa.Instruction], list[str]]) -> Change | None:
    """Change one field of a random instruction.

    Args:
        names_of: returns the fields of an instruction that may be changed.
    """
    launch = rng.choice(plan.launches).stream
    stream = plan.streams[launch]
    places = [(index, item, names_of(item)) for index, item in enumerate(instructions_of(stream))]
    places = [(index, item, names) for index, item, names in places if names]
    if not places:
        return None
    index, item, names = rng.choice(places)
    field = rng.choice(names)
    before = getattr(item, field)
    after = _other(item, field, before, stream.config, rng)
    if after is None or after == before:
        return None
    broken = with_instruction(stream, index, replace(item, **{field: after}))
    text = f"{launch}, instruction {index}: {type(item).__name__.upper()}.{field} {before} -> {after}"
    return replace(plan, streams={**plan.streams, launch: broken}), text


def _other(
    item: isa.Instruction, field: str, before: int, config: AcceleratorConfig, rng: Random
) -> int | None:
    placed = encoding.field_of(type(item), field, config)
    after = 1 - before if placed.width == 1 else before + rng.choice(SHIFTS)
    return after if 0 <= after <= placed.high else None


def _fields(item: isa.Instruction, names: Iterable[str], config: AcceleratorConfig) -> list[str]:
    """Return the names that an instruction has as fields."""
    there = {field.name for field in encoding.layout(type(item), config)}
    return [name for name in names if name in there]


def _moves(item: isa.Instruction) -> bool:
    return isinstance(item, (*ROWS, isa.Store)) and bool(item.x_size and item.y_size)


def address(plan: Plan, rng: Random) -> Change | None:
    """Move the rows of a LOAD, GATHER or STORE, on chip or in DRAM."""
    return _changed(plan, rng, lambda item: ["sram_base", "dram_base", "x_stride"] if _moves(item) else [])


def factor(plan: Plan, rng: Random) -> Change | None:
    """Change a step of a hardware loop that has several trips."""

    def names_of(item: isa.Instruction) -> list[str]:
        loops = (("out", item.iter_out), ("in", item.iter_in)) if isinstance(item, LOOPS) else ()
        names = [
            f"{which}_factor_{end}" for which in ("dst", "src", "wgt") for end, count in loops if count > 1
        ]
        return _fields(item, names, plan.config)

    return _changed(plan, rng, names_of)


def padding(plan: Plan, rng: Random) -> Change | None:
    """Change the rows or columns of padding of a LOAD or GATHER, or what they hold."""

    def names_of(item: isa.Instruction) -> list[str]:
        if not isinstance(item, ROWS) or not _moves(item):
            return []
        padded = [name for name in _fields(item, PADS, plan.config) if getattr(item, name)]
        return [*padded, *_fields(item, ("pad_minimum", "pad_value"), plan.config)] if padded else []

    return _changed(plan, rng, names_of)


def trips(plan: Plan, rng: Random) -> Change | None:
    """Change the trips of a hardware loop, or a flag that starts sums."""
    names = ("iter_out", "iter_in", "reset", "overwrite")
    return _changed(
        plan, rng, lambda item: _fields(item, names, plan.config) if isinstance(item, LOOPS) else []
    )


def micro_op(plan: Plan, rng: Random) -> Change | None:
    """Leave out the last micro-op of an instruction, or put a micro-op in the place of another."""
    if rng.random() < 0.5:
        return _changed(plan, rng, lambda item: ["uop_begin", "uop_end"] if isinstance(item, LOOPS) else [])
    launch = rng.choice(plan.launches).stream
    stream = plan.streams[launch]
    if len(stream.uops) < 2:
        return None
    place, source = rng.sample(range(len(stream.uops)), 2)
    if stream.uops[place] == stream.uops[source]:
        return None
    uops = stream.uops.copy()
    uops[place] = uops[source]
    text = f"{launch}: micro-op {source} in the place of micro-op {place}"
    return replace(plan, streams={**plan.streams, launch: replace(stream, uops=uops)}), text


def stale(plan: Plan, rng: Random) -> Change | None:
    """Leave out what a LOAD or GATHER loads, so that an older tile is used; its tokens stay."""
    launch = rng.choice(plan.launches).stream
    stream = plan.streams[launch]
    items = instructions_of(stream)
    places = [index for index, item in enumerate(items) if isinstance(item, ROWS) and _moves(item)]
    if not places:
        return None
    index = rng.choice(places)
    item = items[index]
    broken = with_instruction(stream, index, replace(item, x_size=0))
    text = f"{launch}, instruction {index}: {type(item).__name__.upper()} loads nothing"
    return replace(plan, streams={**plan.streams, launch: broken}), text


def pooling(plan: Plan, rng: Random) -> Change | None:
    """Change the windows of a MAX of accumulators: trips, a step, or micro-ops, so that a member is missing,
    or another takes its place."""

    def names_of(item: isa.Instruction) -> list[str]:
        if not isinstance(item, isa.Alu) or item.alu_opcode != AluOpcode.MAX or item.use_imm:
            return []
        loops = ("out", item.iter_out), ("in", item.iter_in)
        steps = [f"{which}_factor_{end}" for which in ("dst", "src") for end, count in loops if count > 1]
        return _fields(item, (*steps, "iter_out", "iter_in", "uop_begin", "uop_end"), plan.config)

    return _changed(plan, rng, names_of)


def on_chip(plan: Plan, rng: Random) -> Change | None:
    """Let a STORE into INP write other elements, read other sums, or use other parameters or tables."""
    names = ("sram_base", "dram_base", "x_stride", "x_size", "parameters", "table")
    return _changed(
        plan,
        rng,
        lambda item: (
            [name for name in _fields(item, names, plan.config) if getattr(item, name)]
            if isinstance(item, isa.Store) and item.memory_type == MemoryType.INP
            else []
        ),
    )


def scaling(plan: Plan, rng: Random) -> Change | None:
    """Let a LOAD of activations as weights, as of the factors of a scaled input, read or fill others."""
    launch = rng.choice(plan.launches).stream
    stream = plan.streams[launch]
    constant = {
        int(place) for name, places in stream.tensors.items() if name in plan.weights for place in places
    }
    items = instructions_of(stream)
    places = [
        index
        for index, item in enumerate(items)
        if isinstance(item, isa.Load)
        and item.memory_type == MemoryType.WGT
        and _moves(item)
        and index not in constant
    ]
    if not places:
        return None
    index, field = rng.choice(places), rng.choice(("sram_base", "dram_base", "x_size"))
    before = getattr(items[index], field)
    after = _other(items[index], field, before, stream.config, rng)
    if not after:
        return None
    broken = with_instruction(stream, index, replace(items[index], **{field: after}))
    text = f"{launch}, instruction {index}: LOAD.{field} {before} -> {after}"
    return replace(plan, streams={**plan.streams, launch: broken}), text


def prefetch(plan: Plan, rng: Random) -> Change | None:
    """Let two LOADs of weights change places, so that the later LOAD may overwrite what is still read. Tokens
    stay where they are."""
    launch = rng.choice(plan.launches).stream
    stream = plan.streams[launch]
    items = instructions_of(stream)
    places = [
        index
        for index, item in enumerate(items)
        if isinstance(item, isa.Load) and item.memory_type == MemoryType.WGT and _moves(item)
    ]
    if len(places) < 2:
        return None
    number = rng.randrange(len(places) - 1)
    earlier, later = places[number], rng.choice(places[number + 1 : number + 4])
    if _with_tokens_of(items[later], items[earlier]) == items[earlier]:
        return None
    broken = with_instruction(stream, earlier, _with_tokens_of(items[later], items[earlier]))
    broken = with_instruction(broken, later, _with_tokens_of(items[earlier], items[later]))
    turned = {earlier: later, later: earlier}
    tensors = {
        name: np.array(sorted(turned.get(int(place), int(place)) for place in positions), positions.dtype)
        for name, positions in stream.tensors.items()
    }
    broken = replace(broken, tensors=tensors)
    text = f"{launch}: LOADs {earlier} and {later} of weights change places"
    return replace(plan, streams={**plan.streams, launch: broken}), text


def _with_tokens_of(item: isa.Instruction, source: isa.Instruction) -> isa.Instruction:
    """Return an instruction with the tokens of another."""
    return replace(item, **{name: getattr(source, name) for name in TOKENS})


def _tensors_of(plan: Plan, memory: MemoryType) -> dict[str, int]:
    """Return the weight tensors that LOADs of a memory read, with the bytes of their elements."""
    names: dict[str, int] = {}
    for stream in plan.streams.values():
        items = instructions_of(stream)
        for name, positions in stream.tensors.items():
            first = items[int(positions[0])] if len(positions) else None
            if name in plan.weights and isinstance(first, isa.Load) and first.memory_type == memory:
                names[name] = plan.config.element_bytes(memory, first.halvings)
    return names


def _swapped(plan: Plan, memory: MemoryType, what: str, rng: Random) -> Change | None:
    """Swap two elements of a memory in a weight tensor."""
    names = _tensors_of(plan, memory)
    if not names:
        return None
    name, size = rng.choice(list(names.items()))
    blocks = np.ascontiguousarray(plan.weights[name]).reshape(-1).view(np.uint8).reshape(-1, size).copy()
    if len(blocks) < 2:
        return None
    first, second = rng.sample(range(len(blocks)), 2)
    if np.array_equal(blocks[first], blocks[second]):
        return None
    blocks[[first, second]] = blocks[[second, first]]
    array = blocks.reshape(-1).view(plan.weights[name].dtype).reshape(plan.weights[name].shape)
    return replace(
        plan, weights={**plan.weights, name: array}
    ), f"{name}: {what} {first} and {second} swapped"


def weights(plan: Plan, rng: Random) -> Change | None:
    """Swap two blocks of weights."""
    return _swapped(plan, MemoryType.WGT, "weight blocks", rng)


def parameters(plan: Plan, rng: Random) -> Change | None:
    """Swap two sets of parameters or tables, or let a STORE use other parameters or another table."""
    if rng.random() < 0.5:
        memory = rng.choice((MemoryType.ACC, MemoryType.TABLE))
        return _swapped(plan, memory, "parameter sets", rng)

    def names_of(item: isa.Instruction) -> list[str]:
        names = _fields(item, ("parameters", "table", "residual"), plan.config)
        return [name for name in names if isinstance(item, isa.Store) and getattr(item, name)]

    return _changed(plan, rng, names_of)


KINDS: dict[str, Callable[[Plan, Random], Change | None]] = {
    "address": address,
    "factor": factor,
    "padding": padding,
    "weight block": weights,
    "parameters": parameters,
    "micro-op": micro_op,
    "stale tile": stale,
    "trips": trips,
    "pooling": pooling,
    "on chip": on_chip,
    "scaling": scaling,
    "prefetch": prefetch,
}
