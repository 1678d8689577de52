"""Random and damaged streams, and the comparison of the verifier with its reference on them."""

import random
from dataclasses import fields, replace

import numpy as np
from generators.instructions import InstructionMaker
from generators.programs import IMAGE_BYTES, TokenWeaver, random_config
from verify_faults import Subject, compiled_subject, random_subject

from vdla.hw.spec import codec, encoding, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import EncodingError, OverwriteError, ProgramError
from vdla.hw.spec.footprint import chip_access, stepping_forms
from vdla.hw.spec.memories import LOADED_INTO_ACC, scratchpads_of
from vdla.hw.spec.touched import ByteRows, accesses, extent, fields_of, named, rows_in_dram
from vdla.hw.spec.vocabulary import Extension, MemoryType, Statistic
from vdla.hw.spec.window import MOST_ROWS
from vdla.sim.verify.touch import BEYOND, BROKEN, CONFLICT, EMPTY, UNGATHERED
from vdla.sim.verify.verifier import MOST_FINDINGS, findings
from verification import reference

KINDS = {
    BEYOND: reference.BEYOND,
    EMPTY: reference.EMPTY,
    CONFLICT: reference.CONFLICT,
    BROKEN: reference.BROKEN,
    UNGATHERED: reference.UNGATHERED,
}
OTHER_UNITS = 2  # with which a place may conflict: two findings, one violation
BEYOND_DRAM = (reference.BEYOND, reference.DRAM)
LENGTH = 30  # instructions of a random program, about
COMPILED_EVERY = 10  # streams
STEPS = (-17, -3, -2, -1, 1, 1, 2, 3, 17, 64)  # from a field to its changed value
MOST_BYTES = 20_000  # of a scratchpad that a program initialises
NEAR_BYTES = 3  # from an edge


def random_stream(seed: int) -> Subject:
    """Return a random stream that is safe: a program, a program that initialises all scratchpads, or a
    compiled operator."""
    if seed % COMPILED_EVERY == 0:
        return compiled_subject(seed)
    config = random_config(seed)
    small = all(
        config.depth(memory) * config.element_bytes(memory) <= MOST_BYTES for memory in scratchpads_of(config)
    )
    return initialised_program(seed) if seed % 2 and small else random_subject(seed)


def initialised_program(seed: int) -> Subject:
    """Return a random program that loads every element of every scratchpad before its first use."""
    config, rng = random_config(seed), random.Random(seed)
    image = np.random.default_rng(seed).integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    maker, weaver = InstructionMaker(config, rng, IMAGE_BYTES), TokenWeaver(config, rng)
    image[maker.uop_bytes] = np.frombuffer(codec.uops_to_bytes(maker.uop_table, config), np.uint8)
    for memory in scratchpads_of(config):
        weaver.add(*maker.load_all(memory))
    for _ in range(LENGTH):
        weaver.add(*maker.make())
    return Subject(config, (*weaver.instructions, isa.Finish()), image, filled=False)


def damaged(subject: Subject, rng: random.Random) -> Subject:
    """Return a stream with one fault of the table DAMAGES.

    A field or a micro-op is changed, or an instruction is left out, repeated or moved. Other faults are a
    STORE or NORMALISE onto micro-ops, a transfer at the edge of another transfer or of DRAM, a LOAD that
    promises to run beside another instruction, rows of a DEPTHWISE's window far apart, and statistics that
    no NORMALISE gathers.
    """
    while True:
        candidate = rng.choice(DAMAGES)(subject, rng)
        try:
            candidate.program()
        except EncodingError:
            continue
        if bool(candidate.program().valid.all()):
            return candidate


def _with_other_flag(subject: Subject, rng: random.Random) -> Subject:
    """Return a stream in which an instruction that pops or pushes a token does not."""
    flags = [
        (index, flag)
        for index, item in enumerate(subject.instructions)
        for flag in isa.FLAGS
        if getattr(item, flag)
    ]
    if not flags:
        return _with_other_field(subject, rng)
    index, flag = rng.choice(flags)
    return subject.changed(index, **{flag: 0})


def _with_other_field(subject: Subject, rng: random.Random) -> Subject:
    index = rng.randrange(len(subject.instructions))
    item = subject.instructions[index]
    name = rng.choice([declared.name for declared in fields(item)])
    value = int(getattr(item, name))
    changed = 1 - value if name in isa.FLAGS else max(0, value + rng.choice(STEPS))
    if name == "memory_type":
        changed = rng.choice(list(MemoryType))
    if name == "alu_opcode":
        changed = value
    return subject.changed(index, **{name: changed})


def _with_other_uop(subject: Subject, rng: random.Random) -> Subject:
    """Return a stream in whose DRAM a bit of a loaded micro-op has flipped."""
    loads = [
        item
        for item in subject.instructions
        if isinstance(item, isa.Load) and item.memory_type is MemoryType.UOP and item.x_size and item.y_size
    ]
    if not loads:
        return _with_other_field(subject, rng)
    load, image = rng.choice(loads), subject.image.copy()
    size = subject.config.element_bytes(MemoryType.UOP)
    element = load.dram_base + rng.randrange(load.y_size) * load.x_stride + rng.randrange(load.x_size)
    image[element * size + rng.randrange(size)] ^= 1 << rng.randrange(8)
    return replace(subject, image=image)


def _with_store_onto_micro_ops(subject: Subject, rng: random.Random) -> Subject:
    """Return a stream in which a STORE or NORMALISE writes at micro-ops that a LOAD reads, or beside them."""
    loads = [item for item in subject.instructions if getattr(item, "memory_type", None) is MemoryType.UOP]
    stores = [
        index
        for index, item in enumerate(subject.instructions)
        if isinstance(item, isa.Store | isa.Normalise) and item.memory_type is MemoryType.OUT
    ]
    if not loads or not stores:
        return _with_other_field(subject, rng)
    load, config = rng.choice(loads), subject.config
    row = load.dram_base + rng.randrange(max(load.y_size, 1)) * load.x_stride
    place = row * config.element_bytes(MemoryType.UOP) // config.element_bytes(MemoryType.OUT)
    return subject.changed(rng.choice(stores), dram_base=max(0, place + rng.randint(-1, 1)))


def _with_transfer_at_an_edge(subject: Subject, rng: random.Random) -> Subject:
    """Return a stream in which a transfer, often a GATHER, begins or ends about where DRAM ends, or where
    another transfer, often a STORE, begins or ends."""
    transfers = {
        index: rows
        for index, item in enumerate(subject.instructions)
        if (rows := _bytes_in_dram(item, subject.config)) is not None
    }
    if not transfers:
        return _with_other_field(subject, rng)
    gathers, stores = (
        [index for index in transfers if isinstance(subject.instructions[index], form)]
        for form in (isa.Gather, (isa.Store, isa.Normalise))
    )
    index, neighbour = (_often(preferred, list(transfers), rng) for preferred in (gathers, stores))
    rows, item, size = transfers[index], subject.instructions[index], 1
    if not isinstance(item, isa.Gather):
        size = subject.config.element_bytes(item.memory_type, fields_of(item)("halvings"))
    edge = rng.choice((subject.image.size, transfers[neighbour].begin, transfers[neighbour].end))
    moved = edge - rng.choice((rows.begin, rows.end)) + rng.randint(-NEAR_BYTES, NEAR_BYTES)
    return subject.changed(index, dram_base=max(0, item.dram_base + moved // size))


def _often(preferred: list[int], choices: list[int], rng: random.Random) -> int:
    """Return an index of `preferred`, if it has any, in half of all cases, else an index of `choices`."""
    return rng.choice(rng.choice((preferred, choices)) or choices)


def _bytes_in_dram(item: isa.Instruction, config: AcceleratorConfig) -> ByteRows | None:
    """Return the bytes of DRAM that an instruction moves; None if it moves none."""
    access = next((access for access in accesses(item) if access.in_dram), None)
    if access is None:
        return None
    values = fields_of(item)
    memory = MemoryType(int(named(access, values)))
    return rows_in_dram(access, values, config.element_bytes(memory, values("halvings")))


def _with_promise(subject: Subject, rng: random.Random) -> Subject:
    """Return a stream that repeats the first step of a GEMM, ALU or DEPTHWISE, followed by a LOAD.

    The step often belongs to an ALU that reads a second accumulator. The LOAD promises to write no half of
    ACC in which the step works.
    """
    items, config = list(subject.instructions), subject.config
    loads = [
        item
        for item in items
        if isinstance(item, isa.Load) and item.memory_type in LOADED_INTO_ACC and item.x_size
    ]
    steps = [index for index, item in enumerate(items) if isinstance(item, stepping_forms())]
    with_source = [index for index in steps if isinstance(items[index], isa.Alu) and not items[index].use_imm]
    if not (loads and steps and config.has(Extension.ACC_HALVES)):
        return _with_other_field(subject, rng)
    load, depth = rng.choice(loads), config.depth(MemoryType.ACC)
    begin, end = extent(chip_access(isa.Load), fields_of(load))
    base = rng.choice((0, depth - (end - begin), depth // 2 - rng.randint(0, end - begin)))
    tokens = dict.fromkeys(isa.FLAGS, 0)
    index = _often(with_source, steps, rng)
    first = items[index].uop_begin
    step = replace(items[index], uop_end=first + 1, iter_out=1, iter_in=1, **tokens)
    promise = replace(load, sram_base=max(0, base), beside=1, **tokens)
    items[index + 1 : index + 1] = step, promise
    return replace(subject, instructions=tuple(items))


def _with_last_row_at_the_end(subject: Subject, rng: random.Random) -> Subject:
    """Return a stream in which the rows of a DEPTHWISE's window are so far apart that the last row may lie
    beyond the end of INP."""
    config = subject.config
    windows = [
        index
        for index, item in enumerate(subject.instructions)
        if isinstance(item, isa.Depthwise) and item.iter_out * item.iter_in and item.uop_begin < item.uop_end
    ]
    if not (windows and config.has(Extension.DEPTHWISE_ROWS)):
        return _with_other_field(subject, rng)
    more = max(rng.randrange(1, MOST_ROWS), rng.randrange(1, MOST_ROWS))
    most = encoding.field_of(isa.Depthwise, "row_step", config).high
    whole = config.depth(MemoryType.INP) // (2 * more)  # the last row is a scratchpad away from the first
    step = rng.randint(whole // 2, whole)
    return subject.changed(rng.choice(windows), more_rows=more, row_step=min(step, most))


def _with_other_order(subject: Subject, rng: random.Random) -> Subject:
    items = list(subject.instructions)
    item = items[rng.randrange(len(items))]
    match rng.randrange(3):
        case 0:
            items.remove(item)
        case 1:
            items.insert(rng.randrange(len(items)), item)
        case _:
            items.remove(item)
            items.insert(rng.randrange(len(items) + 1), item)
    return replace(subject, instructions=tuple(items))


def _with_ungathered_statistic(subject: Subject, rng: random.Random) -> Subject:
    """Return a stream in which a NORMALISE has fewer rows, or another statistic, or begins none anew."""
    items = list(subject.instructions)
    places = [index for index, item in enumerate(items) if isinstance(item, isa.Normalise) and item.x_size]
    if not places:
        return _with_other_field(subject, rng)
    index = rng.choice(places)
    name = rng.choice(["x_size", "anew", "statistic", "statistic"])
    changed = {"x_size": items[index].x_size // 2, "anew": 0}
    return subject.changed(index, **{name: changed.get(name, rng.choice([Statistic.POWERS, *Statistic]))})


DAMAGES = (
    _with_other_field,
    _with_ungathered_statistic,
    _with_other_flag,
    _with_last_row_at_the_end,
    _with_other_uop,
    _with_other_order,
    _with_store_onto_micro_ops,
    _with_transfer_at_an_edge,
    _with_transfer_at_an_edge,
    _with_promise,
    _with_promise,
)


def verifier_verdict(subject: Subject) -> reference.Verdict:
    """Return the verdict of `vdla.sim.verify` in the words of the reference."""
    try:
        violations = findings(subject.program(), subject.image, filled=subject.filled)
    except OverwriteError:
        return reference.OVERWRITES
    except ProgramError:
        return reference.STUCK
    if not violations:
        return reference.SAFE
    first = violations[0].index
    return reference.Verdict(
        "unsafe",
        first,
        frozenset(
            (KINDS[each.kind], reference.DRAM if each.memory is None else each.memory, each.element)
            for each in violations
            if each.index == first
        ),
    )


def disagreement(subject: Subject) -> str:
    """Return how the verdicts of the verifier and of the reference differ; "" if they agree.

    The verifier stops at the first place that does not exist and reports at most MOST_FINDINGS violations.
    It names a single element of a broken promise, the first byte of a row that leaves DRAM, and a byte for
    each group of bytes in DRAM that the same instructions use. The reference then has all of its violations,
    perhaps with more; else they are the same.
    """
    verdict = verifier_verdict(subject)
    expected = reference.judge(
        subject.instructions, subject.image.tobytes(), subject.config, filled=subject.filled
    )
    if (verdict.fault, verdict.index) != (expected.fault, expected.index):
        return f"verifier: {verdict}; reference: {expected}"
    stops = any(kind == reference.BEYOND for kind, _, _ in expected.violations)
    same = _comparable(verdict) <= _comparable(expected)
    if not stops and len(verdict.violations) < MOST_FINDINGS // OTHER_UNITS:
        same = same and _on_chip(verdict) == _on_chip(expected)
    return "" if same else f"verifier: {verdict}; reference: {expected}"


def _comparable(verdict: reference.Verdict) -> frozenset:
    """Return the violations, without the elements of broken promises and the addresses of rows that leave
    DRAM."""
    return frozenset(
        (kind, memory, 0 if kind == reference.BROKEN or (kind, memory) == BEYOND_DRAM else element)
        for kind, memory, element in verdict.violations
    )


def _on_chip(verdict: reference.Verdict) -> frozenset:
    return frozenset(each for each in _comparable(verdict) if each[1] != reference.DRAM)
