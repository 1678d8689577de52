"""The data that the verifier needs of each instruction: the walks that its footprint makes, as numbers."""

import numpy as np

from vdla.hw.spec import encoding, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import InvalidInstructionError
from vdla.hw.spec.footprint import FOOTPRINTS, MOST_ACCESSES, Access
from vdla.hw.spec.memories import LOADED_INTO_ACC, scratchpad_of
from vdla.hw.spec.touched import Fields, extent, happens, rows_in_dram, total
from vdla.hw.spec.vocabulary import MemoryType, Statistic
from vdla.sim.decoded import DecodedStream, blocks
from vdla.sim.records import IntArray, Narrow, RecordArray, record_dtype
from vdla.sim.rows import element_bytes

DRAM = len(MemoryType)  # stands for a memory type


class Item:
    """What the verifier reads of one instruction beside its walks."""

    steps: bool  # it steps through micro-ops
    rows: bool  # each micro-op names the first elements of its row: the inner axes are innermost
    fits: bool  # its walks on chip that do not depend on micro-ops stay inside their memories
    fills: bool  # it loads micro-ops
    normal_rows: int  # rows of a NORMALISE, of which there are statistics
    uses: int  # a bit for each statistic that it uses of its rows
    gathers: int  # a bit for the statistic that it gathers
    beside: bool  # a LOAD that promises to write no half of ACC in which the instruction before it works
    uop_begin: int
    uop_end: int
    iter_out: int
    iter_in: int


class Walk:
    """One access of an instruction, as `vdla.hw.spec.footprint` declares it; in DRAM, it counts bytes."""

    happens: bool
    writes: bool
    needs: bool  # it must find data there
    memory: Narrow  # the scratchpad, or DRAM
    uop_start: Narrow  # of the field of micro-ops that is added to the base
    uop_width: Narrow  # 0: there is none
    before_out: Narrow  # trips of padding
    before_in: Narrow
    base: int
    trips_out: int
    step_out: int
    trips_in: int
    step_in: int


ITEM, WALK = record_dtype(Item), record_dtype(Walk)


def ordered_accesses(form: type[isa.Instruction]) -> tuple[Access, ...]:
    """Return the accesses of a form of instruction in the order in which they are followed.

    Of transfers, DRAM comes first: a transfer that reaches too far touches nothing on chip. Of steps, reads
    come first; the micro-ops themselves are no walk, but the fields `uop_begin` and `uop_end` of the item.
    """
    footprint = FOOTPRINTS[form]
    if not footprint.uses_uops:
        return tuple(reversed(footprint.accesses))
    operands = (access for access in footprint.accesses if access.uop_field)
    return tuple(sorted(operands, key=lambda access: access.writes))


LOAD_FROM_DRAM, LOAD_ON_CHIP = (
    next(number for number, access in enumerate(ordered_accesses(isa.Load)) if access.in_dram is in_dram)
    for in_dram in (True, False)
)
"""The places of a LOAD's walks."""
FOLLOWED = tuple(form.opcode for form in FOOTPRINTS)


def refuse_unknown(program: DecodedStream, order: IntArray) -> None:
    """Refuse instructions of which the verifier does not know what they touch.

    Args:
        order: int64[executed], indices of instructions.

    Raises:
        InvalidInstructionError: there is such an instruction.
    """
    unknown = order[~np.isin(program.opcode[order], FOLLOWED)]
    if unknown.size:
        index, known = int(unknown[0]), ", ".join(f"{opcode.name} ({opcode})" for opcode in sorted(FOLLOWED))
        raise InvalidInstructionError(
            f"instruction {index} ({program.word(index):#034x}) has opcode {program.opcode[index]}, "
            f"which the verifier does not know; it knows {known}",
            index,
        )


def footprint_columns(program: DecodedStream) -> tuple[RecordArray, RecordArray]:
    """Return ITEM[n], and WALK[n * MOST_ACCESSES]: of instruction i, the walks from i * MOST_ACCESSES on."""
    items = np.zeros(len(program), ITEM)
    walks = np.zeros((len(program), MOST_ACCESSES), WALK)
    for block in blocks(len(program)):
        part = program.part(block)
        for form in FOOTPRINTS:
            chosen = np.flatnonzero(part.opcode == form.opcode)
            if chosen.size:
                _fill(items[block], walks[block], chosen, part.fields(form), form, program.config)
    return items, walks.reshape(-1)


def _fill(
    items: RecordArray,
    walks: RecordArray,
    chosen: IntArray,
    fields: Fields,
    form: type[isa.Instruction],
    config: AcceleratorConfig,
) -> None:
    """Fill in the rows `chosen`, whose instructions are of `form`."""
    footprint, fits = FOOTPRINTS[form], np.ones(len(chosen), bool)
    for number, access in enumerate(ordered_accesses(form)):
        happening, memory = happens(footprint, access, fields), access.memory
        types = fields("memory_type") if memory is None else np.full(len(chosen), memory)
        values = _walk(access, fields, types, config) | {"happens": happening}
        for name, value in values.items():
            walks[name][chosen, number] = value
        if not (access.uop_field or access.in_dram):
            depth = np.array([config.depth(memory) for memory in MemoryType])
            fits &= ~happening | (extent(access, fields)[1] <= depth[types])
    items["fits"][chosen], items["steps"][chosen] = fits, footprint.uses_uops
    items["rows"][chosen] = form is isa.Depthwise
    items["fills"][chosen] = (form is isa.Load) & (fields("memory_type") == MemoryType.UOP)
    if form is isa.Load:
        pushes = (fields("push_prev") | fields("push_next")) != 0
        into_acc = np.isin(fields("memory_type"), LOADED_INTO_ACC)
        items["beside"][chosen] = (fields("beside") != 0) & into_acc & ~pushes
    if form is isa.Normalise:
        elements = np.minimum(fields("y_size") * fields("x_size"), isa.NORMAL_ROWS)
        items["normal_rows"][chosen] = elements
        items["uses"][chosen], items["gathers"][chosen] = _statistics(fields)
    for name in ("uop_begin", "uop_end", "iter_out", "iter_in"):
        items[name][chosen] = fields(name)


def _statistics(fields: Fields) -> tuple[IntArray, IntArray]:
    """Return a bit for each statistic that NORMALISEs use, and a bit for the statistic that they gather."""
    statistic, writes = fields("statistic"), fields("normal") != 0
    own = 1 << statistic
    uses = np.where(writes | (fields("anew") == 0), own, 0)
    needs_greatest = statistic == Statistic.POWERS
    return uses | needs_greatest << Statistic.GREATEST, np.where(writes, 0, own)


def _walk(access: Access, fields: Fields, types: IntArray, config: AcceleratorConfig) -> dict[str, object]:
    """Return the values of WALK, but for whether the access happens; `types`: the memory types it counts."""
    pads = np.array([scratchpad_of(memory) for memory in MemoryType])
    scale = element_bytes(types, fields, config) if access.in_dram else np.ones(1, np.int64)
    values: dict[str, object] = {
        "writes": access.writes,
        "memory": DRAM if access.in_dram else pads[types],
        "base": total(access.base, fields) * scale,
        "needs": access.reads
        and not access.in_dram
        and np.all([fields(name) == 0 for name in access.fresh], axis=0),
    }
    for axis, side in ((access.outer, "out"), (access.inner, "in")):
        values[f"trips_{side}"] = total(axis.every, fields)
        values[f"step_{side}"] = total(axis.step, fields) * scale
        values[f"before_{side}"] = total(axis.before, fields)
    if access.in_bytes:
        rows = rows_in_dram(access, fields, scale)
        values |= {"base": rows.begin, "step_out": rows.stride, "trips_in": rows.width, "step_in": 1}
    if access.uop_field:
        placed = encoding.field_of(isa.MicroOp, access.uop_field, config)
        values |= {"uop_start": placed.start, "uop_width": placed.width}
    return values
