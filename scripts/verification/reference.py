"""A second verifier of streams, in plain Python: slow, and short enough to be read beside `docs/isa.md`.

It shares no code with `vdla.sim.verify`, the footprints and the interleaver. It computes, in this order:

1. an execution of the stream on queues and token counters;
2. for each instruction, the set of instructions that are certain to be done before it. These are the earlier
   instructions of its unit, the instructions that pushed the tokens that it pops, and all that precede these;
3. for each instruction, the set of places that it reads and the set that it writes. A place is a pair of a
   memory and an element; in DRAM, and a byte.

A stream is safe under these conditions:

- No STORE or NORMALISE writes micro-ops that the stream loads.
- The execution ends with FINISH.
- Every place exists, and every place on chip was written before it is read.
- A NORMALISE uses only statistics of rows that a NORMALISE before it in the stream has gathered.
- Two instructions of different units that use the same place are in order, if at least one of them writes.
- A LOAD with `beside` writes no half of ACC that the last GEMM, ALU or DEPTHWISE uses.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from vdla.hw.spec import codec, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType, Statistic

UOP, INP, WGT, ACC = MemoryType.UOP, MemoryType.INP, MemoryType.WGT, MemoryType.ACC
TABLE, RES, OUT = MemoryType.TABLE, MemoryType.RES, MemoryType.OUT
LOAD_UNIT, COMPUTE_UNIT, STORE_UNIT = range(3)
DRAM = "DRAM"
BEYOND, EMPTY, CONFLICT, BROKEN, UNGATHERED = "beyond", "empty", "conflict", "broken promise", "ungathered"
Place = tuple[object, int]


@dataclass
class Accesses:
    """The places that an instruction uses.

    Attributes:
        reads, writes: all places.
        needs: places on chip that must hold a value before.
    """

    reads: set[Place] = field(default_factory=set)
    writes: set[Place] = field(default_factory=set)
    needs: set[Place] = field(default_factory=set)

    def read(self, *places: Place) -> None:
        """Add places that are read."""
        self.reads.update(places)
        self.needs.update(place for place in places if place[0] != DRAM)


@dataclass(frozen=True)
class Verdict:
    """The first violation of a stream.

    Attributes:
        fault: "" if the stream is safe; "overwrites" if it changes its micro-ops; "stuck" if the execution
            does not reach FINISH; else "unsafe".
        index: the first instruction, in order of execution, with a violation.
        violations: (kind, memory, element) of all violations of that instruction; of UNGATHERED, the
            statistic and the row.
    """

    fault: str = ""
    index: int = -1
    violations: frozenset[tuple[str, object, int]] = frozenset()


SAFE, OVERWRITES, STUCK = Verdict(), Verdict("overwrites"), Verdict("stuck")


def judge(
    instructions: Sequence[isa.Instruction], dram: bytes, config: AcceleratorConfig, *, filled: bool
) -> Verdict:
    """Return the verdict on a stream whose instructions are all valid.

    Args:
        dram: content of DRAM before the run.
        filled: the scratchpads hold values (zeros) before the run.
    """
    if overwrites_micro_ops(instructions, config):
        return OVERWRITES
    order = execution(instructions, config)
    if order is None:
        return STUCK
    done_before = certain_predecessors(instructions, order)
    uops = [isa.MicroOp()] * config.depth(UOP)
    written: set[Place] = set()
    accesses: dict[int, Accesses] = {}
    halves_in_use: set[int] = set()
    gathered: set[tuple[Statistic, int]] = set()
    for index in order:
        item = instructions[index]
        now = accesses_of(item, uops, config)
        violations = {(BEYOND, *place) for place in now.reads | now.writes if not exists(place, dram, config)}
        violations |= {(UNGATHERED, *each) for each in statistics_used(item) - gathered}
        if not filled:
            violations |= {(EMPTY, *place) for place in now.needs - written}
        violations |= conflicts(now, others_of(item, instructions, accesses), done_before[index])
        if isinstance(item, isa.Load) and promises(item):
            violations |= broken_promises(now, halves_in_use, config)
        if violations:
            return Verdict("unsafe", index, frozenset(violations))
        if isinstance(item, isa.Gemm | isa.Alu | isa.Depthwise):
            halves_in_use = halves_of(now, config)
        if isinstance(item, isa.Load) and item.memory_type == UOP:
            load_uops(item, uops, dram, config)
        gathered |= statistics_gathered(item)
        written |= {place for place in now.writes if place[0] != DRAM}
        accesses[index] = now
    return SAFE


def others_of(
    item: isa.Instruction, instructions: Sequence[isa.Instruction], accesses: dict[int, Accesses]
) -> dict[int, Accesses]:
    """Return the accesses, by position, of the instructions of other units than an instruction's."""
    unit = unit_of(item)
    return {index: each for index, each in accesses.items() if unit_of(instructions[index]) != unit}


def conflicts(now: Accesses, others: dict[int, Accesses], done_before: int) -> set[tuple[str, object, int]]:
    """Return the violations of an instruction by places that it shares with instructions of other units, by
    position, which may not be done before."""
    unordered = (earlier for position, earlier in others.items() if not done_before >> position & 1)
    return {(CONFLICT, *place) for earlier in unordered for place in shared_places(earlier, now)}


def broken_promises(
    accesses: Accesses, halves_in_use: set[int], config: AcceleratorConfig
) -> set[tuple[str, object, int]]:
    """Return the violations of a LOAD that promises to leave the halves of ACC in use alone."""
    return {(BROKEN, *place) for place in accesses.writes if half_of(place[1], config) in halves_in_use}


def rows_of(item: isa.Normalise) -> range:
    """Return the rows of which a NORMALISE gathers or uses statistics: one for each element, modulo 256."""
    return range(min(item.y_size * item.x_size, 256))


def statistics_gathered(item: isa.Instruction) -> set[tuple[Statistic, int]]:
    """Return the statistic that an instruction gathers, with each of its rows."""
    if not isinstance(item, isa.Normalise) or item.normal:
        return set()
    return set(product([item.statistic], rows_of(item)))


def statistics_used(item: isa.Instruction) -> set[tuple[Statistic, int]]:
    """Return the statistics that an instruction uses, with their rows."""
    if not isinstance(item, isa.Normalise):
        return set()
    used = set()
    if item.normal or not item.anew:
        used.add(item.statistic)
    if item.statistic == Statistic.POWERS:
        used.add(Statistic.GREATEST)
    return set(product(used, rows_of(item)))


def overwrites_micro_ops(instructions: Sequence[isa.Instruction], config: AcceleratorConfig) -> bool:
    """Whether a STORE or NORMALISE of a stream writes a byte of DRAM that a LOAD of UOP reads; behind FINISH,
    too."""
    loads = [item for item in instructions if isinstance(item, isa.Load) and item.memory_type == UOP]
    stores = [item for item in instructions if isinstance(item, isa.Store | isa.Normalise)]
    read = {place for load in loads for place in accesses_of(load, (), config).reads}
    return any(read & accesses_of(each, (), config).writes for each in stores)


# Execution: queues, tokens


def unit_of(item: isa.Instruction) -> int:
    """Return the unit that executes an instruction: INP and WGT are loaded by the load unit, everything else
    by the compute unit."""
    if isinstance(item, isa.Store | isa.Normalise):
        return STORE_UNIT
    if isinstance(item, isa.Gather) or (isinstance(item, isa.Load) and item.memory_type in (INP, WGT)):
        return LOAD_UNIT
    return COMPUTE_UNIT


def tokens_of(item: isa.Instruction) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Return the edges (from unit, to unit) that an instruction pops and the edges that it pushes."""
    unit = unit_of(item)
    before, after = unit - 1, unit + 1
    pops = {(before, unit)} if item.pop_prev else set()
    pops |= {(after, unit)} if item.pop_next else set()
    pushes = {(unit, before)} if item.push_prev else set()
    pushes |= {(unit, after)} if item.push_next else set()
    units = {LOAD_UNIT, COMPUTE_UNIT, STORE_UNIT}
    return {edge for edge in pops if set(edge) <= units}, {edge for edge in pushes if set(edge) <= units}


def execution(instructions: Sequence[isa.Instruction], config: AcceleratorConfig) -> list[int] | None:
    """Return an order in which a stream executes up to its FINISH; None if it does not reach the FINISH.

    Instructions enter the queue of their unit in order of the program; a full queue blocks all that follow.
    Whichever unit goes on first, the same instructions execute: a unit that can go on stays able to.
    """
    room = {
        LOAD_UNIT: config.load_queue_depth,
        COMPUTE_UNIT: config.compute_queue_depth,
        STORE_UNIT: config.store_queue_depth,
    }
    queues: dict[int, list[int]] = {unit: [] for unit in room}
    tokens: dict[tuple[int, int], int] = {}
    finish = next((i for i, item in enumerate(instructions) if isinstance(item, isa.Finish)), None)
    waiting = list(range(len(instructions) if finish is None else finish + 1))
    order: list[int] = []
    while True:
        while (
            waiting
            and len(queues[unit_of(instructions[waiting[0]])]) < room[unit_of(instructions[waiting[0]])]
        ):
            queues[unit_of(instructions[waiting[0]])].append(waiting.pop(0))
        ready = [
            queue[0]
            for queue in queues.values()
            if queue and can_start(instructions[queue[0]], tokens, config)
        ]
        if not ready:
            return order if finish is not None and not waiting and not any(queues.values()) else None
        index = min(ready)
        queues[unit_of(instructions[index])].pop(0)
        pops, pushes = tokens_of(instructions[index])
        for edge in pops:
            tokens[edge] -= 1
        for edge in pushes:
            tokens[edge] = tokens.get(edge, 0) + 1
        order.append(index)


def can_start(item: isa.Instruction, tokens: dict[tuple[int, int], int], config: AcceleratorConfig) -> bool:
    """Whether every token that an instruction pops is there, and every token that it pushes has room."""
    pops, pushes = tokens_of(item)
    return all(tokens.get(edge, 0) > 0 for edge in pops) and all(
        tokens.get(edge, 0) < config.token_depth for edge in pushes
    )


def certain_predecessors(instructions: Sequence[isa.Instruction], order: Sequence[int]) -> dict[int, int]:
    """Return, for each instruction, the set of instructions that are done before it starts in every legal
    interleaving, as a number whose bit i stands for instruction i.

    The k-th pop of an edge takes the token of the k-th push.
    """
    pushers: dict[tuple[int, int], list[int]] = {}
    last_of_unit: dict[int, int] = {}
    done_before: dict[int, int] = {}
    for index in order:
        pops, pushes = tokens_of(instructions[index])
        unit = unit_of(instructions[index])
        direct = [last_of_unit[unit]] if unit in last_of_unit else []
        direct += [pushers[edge].pop(0) for edge in pops]
        done_before[index] = 0
        for predecessor in direct:
            done_before[index] |= done_before[predecessor] | 1 << predecessor
        for edge in pushes:
            pushers.setdefault(edge, []).append(index)
        last_of_unit[unit] = index
    return done_before


# Accesses: what docs/isa.md says of each instruction


def accesses_of(item: isa.Instruction, uops: Sequence[isa.MicroOp], config: AcceleratorConfig) -> Accesses:
    """Return the places that an instruction uses."""
    places = Accesses()
    match item:
        case isa.Load() | isa.Gather() if item.x_size:
            block(item, places, config)
        case isa.Store() if item.x_size and item.y_size:
            store(item, places, config)
        case isa.Normalise() if item.x_size and item.y_size:
            normalise(item, places, config)
        case isa.Gemm() | isa.Alu():
            for uop, i, j in steps(item, uops, places):
                step(item, uop, i, j, places)
        case isa.Depthwise():
            for uop, i, j in steps(item, uops, places):
                window(item, uop, i, j, places)
    return places


def block(item: isa.Load | isa.Gather, places: Accesses, config: AcceleratorConfig) -> None:
    """Add the places of a LOAD or GATHER."""
    left, right = (item.x_pad_0, item.x_pad_1) if isinstance(item, isa.Load) else (0, 0)
    elements = (item.y_pad_0 + item.y_size + item.y_pad_1) * (left + item.x_size + right)
    memory = ACC if item.memory_type == MemoryType.ACC_8BIT else item.memory_type
    places.writes |= {(memory, item.sram_base + number) for number in range(elements)}
    size = config.element_bytes(item.memory_type, item.halvings if isinstance(item, isa.Load) else 0)
    for y in range(item.y_size):
        if isinstance(item, isa.Gather):
            begin = item.dram_base + y * item.x_stride
            end = begin + (item.x_size - 1) * item.step + size
        else:
            begin = (item.dram_base + y * item.x_stride) * size
            end = begin + item.x_size * size
        places.read(*((DRAM, byte) for byte in range(begin, end)))


def store(item: isa.Store, places: Accesses, config: AcceleratorConfig) -> None:
    """Add the places of a STORE."""
    elements = range(item.y_size * item.x_size)
    places.read(*((ACC, item.sram_base + number) for number in elements))
    if item.parameters:
        places.read(*((ACC, 4 * (item.parameters - 1) + number) for number in range(4)))
        if item.table:
            places.read(*((TABLE, 64 * (item.table - 1) + number) for number in range(64)))
        if item.residual:
            places.read(*((ACC, number) for number in range(4)))
            places.read(*((RES, item.residual - 1 + number) for number in elements))
    write_outputs(item, places, config)


def normalise(item: isa.Normalise, places: Accesses, config: AcceleratorConfig) -> None:
    """Add the places of a NORMALISE."""
    places.read(*((ACC, item.sram_base + number) for number in range(item.y_size * item.x_size)))
    if item.parameters:
        places.read(*((ACC, 4 * (item.parameters - 1) + number) for number in range(4)))
    if item.table:
        places.read(*((TABLE, 64 * (item.table - 1) + number) for number in range(128)))
    if item.normal:
        places.read(*((ACC, 4 * (item.normal - 1) + number) for number in range(4)))
        write_outputs(item, places, config)


def write_outputs(item: isa.Store | isa.Normalise, places: Accesses, config: AcceleratorConfig) -> None:
    """Add the places that outputs are written to."""
    size = config.element_bytes(OUT)
    for y in range(item.y_size):
        begin, end = (item.dram_base + y * item.x_stride + x for x in (0, item.x_size))
        if item.memory_type == INP:
            places.writes |= {(INP, element) for element in range(begin, end)}
        else:
            places.writes |= {(DRAM, byte) for byte in range(begin * size, end * size)}


def steps(
    item: isa.Gemm | isa.Alu | isa.Depthwise, uops: Sequence[isa.MicroOp], places: Accesses
) -> Iterator[tuple[isa.MicroOp, int, int]]:
    """Yield the micro-op and both loop counters of each step; add the micro-ops to the places."""
    positions = range(item.uop_begin, item.uop_end)
    if not (item.iter_out and item.iter_in):
        return
    places.read(*((UOP, position) for position in positions))
    for i, j, position in product(range(item.iter_out), range(item.iter_in), positions):
        if position < len(uops):
            yield uops[position], i, j


def step(item: isa.Gemm | isa.Alu, uop: isa.MicroOp, i: int, j: int, places: Accesses) -> None:
    """Add the places of a step of a GEMM or ALU instruction. An accumulator that an earlier step of the same
    instruction wrote holds a value."""
    target = (ACC, uop.dst + i * item.dst_factor_out + j * item.dst_factor_in)
    source = uop.src + i * item.src_factor_out + j * item.src_factor_in
    fresh = False
    if isinstance(item, isa.Alu):
        if not item.use_imm:
            read_unless_written(places, (ACC, source))
    else:
        fresh = bool(item.reset or item.overwrite)
        if not item.reset:
            weight = uop.wgt + i * item.wgt_factor_out + j * item.wgt_factor_in
            places.read((INP, source), (WGT, weight))
    if not fresh:
        read_unless_written(places, target)
    places.writes.add(target)


def window(item: isa.Depthwise, uop: isa.MicroOp, i: int, j: int, places: Accesses) -> None:
    """Add the places of a sum of a DEPTHWISE: a window of inputs, a weight element, an accumulator."""
    target = (ACC, uop.dst + i * item.dst_factor_out + j * item.dst_factor_in)
    first = uop.src + i * item.src_factor_out + j * (1 + item.stride_2) * item.src_factor_in
    for row in range(1 + item.more_rows):
        begin = first + row * (2 * item.row_step + 1)
        places.read(*((INP, begin + t * item.src_factor_in) for t in range(5 if item.wide else 3)))
    places.read((WGT, uop.wgt + i * item.wgt_factor_out))
    if not item.overwrite:
        read_unless_written(places, target)
    places.writes.add(target)


def read_unless_written(places: Accesses, place: Place) -> None:
    """Add a read of an accumulator; it needs a value from before unless the same instruction wrote it."""
    places.reads.add(place)
    if place not in places.writes:
        places.needs.add(place)


# Places


def shared_places(earlier: Accesses, now: Accesses) -> set[Place]:
    """Return the places that two instructions use and at least one of them writes."""
    return earlier.writes & (now.reads | now.writes) | earlier.reads & now.writes


def halves_of(accesses: Accesses, config: AcceleratorConfig) -> set[int]:
    """Return the halves of ACC, 0 and 1, in which an instruction uses accumulators."""
    used = accesses.reads | accesses.writes
    return {half_of(element, config) for memory, element in used if memory == ACC}


def exists(place: Place, dram: bytes, config: AcceleratorConfig) -> bool:
    """Whether a memory has an element, or DRAM a byte."""
    memory, element = place
    return element < (len(dram) if memory == DRAM else config.depth(MemoryType(memory)))


def promises(load: isa.Load) -> bool:
    """Whether the flag `beside` of a LOAD has an effect."""
    into_acc = load.memory_type in (ACC, MemoryType.ACC_8BIT)
    return bool(load.beside and into_acc and not (load.push_prev or load.push_next))


def half_of(element: int, config: AcceleratorConfig) -> int:
    """Return the half of ACC, 0 or 1, in which an element lies."""
    return int(element >= config.depth(ACC) // 2)


def load_uops(load: isa.Load, uops: list[isa.MicroOp], dram: bytes, config: AcceleratorConfig) -> None:
    """Copy micro-ops from DRAM as a LOAD does; padding is the micro-op of all zeros."""
    size = config.element_bytes(UOP)
    place = load.sram_base
    for y in range(-load.y_pad_0, load.y_size + load.y_pad_1 if load.x_size else -load.y_pad_0):
        for x in range(-load.x_pad_0, load.x_size + load.x_pad_1):
            uops[place] = isa.MicroOp()
            if 0 <= x < load.x_size and 0 <= y < load.y_size:
                begin = (load.dram_base + y * load.x_stride + x) * size
                word = int.from_bytes(dram[begin : begin + size], "little")
                uops[place] = codec.decode_uop(word, config)
            place += 1
