"""What each instruction touches, declared once: its unit, the memories it reads and writes, and the elements.

An access walks two axes. It touches the elements

    base + i * outer.step + j * inner.step    for i < trips of the outer axis, j < trips of the inner axis

of one memory. An access that names a field of micro-ops touches these elements, moved by that field, for each
micro-op in [uop_begin, uop_end). Bases, steps and trips are sums of products of fields; `touched` evaluates
them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vdla.hw.spec import isa
from vdla.hw.spec.memo import memoised
from vdla.hw.spec.memories import LOADABLE, MEMORIES, scratchpad_of
from vdla.hw.spec.vocabulary import MemoryType, NormalParameter, Parameter, Unit
from vdla.hw.spec.window import MOST_ROWS, TAPS, WIDE_TAPS


@dataclass(frozen=True, slots=True)
class Axis:
    """One of the two axes of an access; sums of products of fields as text.

    Attributes:
        step: elements from one trip to the next.
        trips: the trips that move data.
        before, behind: trips of padding.
    """

    step: str
    trips: str
    before: str = "0"
    behind: str = "0"

    @property
    def every(self) -> str:
        """All trips."""
        return " + ".join(part for part in (self.before, self.trips, self.behind) if part != "0")


@dataclass(frozen=True, slots=True)
class Access:
    """One walk of an instruction through one memory.

    Attributes:
        memory: the memory type whose elements are counted; None: the memory that `memory_type` names.
        base: the first element, as a sum of products of fields; with `uop_field`, what is added to that.
        outer, inner: the axes.
        reads, writes: what happens to each element. An element that is read and written is read first.
        in_dram: the elements stand in DRAM; else in the scratchpad of `memory`.
        in_bytes: of an access in DRAM: base and steps count bytes, not elements; all bytes between the first
            and the last element of an inner axis belong to it.
        uop_field: the field of micro-ops that is added to the base; empty: there is none.
        where: sums of products of fields; where any is not positive, the instruction makes no such access.
        unless: fields; where one of them is not 0, the instruction makes no such access.
        fresh: fields; where one of them is not 0, elements are written without being read.
        of: the instruction makes the access only if its `memory_type` is this; None: whatever that is.
    """

    memory: MemoryType | None
    base: str
    outer: Axis
    inner: Axis
    reads: bool = False
    writes: bool = False
    in_dram: bool = False
    in_bytes: bool = False
    uop_field: str = ""
    where: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    of: MemoryType | None = None


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a form of instruction touches.

    Attributes:
        unit: that executes it; None: the unit that loads the memory which `memory_type` names.
        trips: sums of products of fields; where one of them is not positive, the instruction touches nothing.
            Of an instruction with micro-ops, their product counts its steps.
        accesses: in the order in which they are checked.
        counter: the register that counts its steps; empty: there are none.
    """

    unit: Unit | None
    trips: tuple[str, ...] = ()
    accesses: tuple[Access, ...] = ()
    counter: str = ""

    @property
    def uses_uops(self) -> bool:
        """Whether the instruction steps through micro-ops."""
        return any(access.uop_field for access in self.accesses)


ONCE = Axis("0", "1")
_DRAM_ROWS = Axis("x_stride", "y_size"), Axis("1", "x_size")
_PADDED_ROWS = (
    Axis("x_pad_0 + x_size + x_pad_1", "y_size", "y_pad_0", "y_pad_1"),
    Axis("1", "x_size", "x_pad_0", "x_pad_1"),
)
_GATHERED_ROWS = Axis("x_size", "y_size", "y_pad_0", "y_pad_1"), Axis("1", "x_size")
_STORED_ROWS = Axis("x_size", "y_size"), Axis("1", "x_size")
MICRO_OP_COUNT = "uop_end - uop_begin"
_COLUMNS = (  # inputs of a row: one in each slot
    f"iter_in + stride_2 * iter_in - stride_2 + {WIDE_TAPS - TAPS} * wide + {TAPS - 1}"
)


def _operand(field: str, memory: MemoryType, **how: Any) -> Access:
    """Return the access of a micro-op's field, to which the loops add multiples of its factors."""
    outer, inner = (Axis(f"{field}_factor_{loop}", f"iter_{loop}") for loop in ("out", "in"))
    return Access(memory, "0", outer, inner, uop_field=field, **how)


def _row_operand(field: str, memory: MemoryType, step: str, row: int = 0) -> Access:
    """Return the access of a micro-op's field that DEPTHWISE makes in every slot of a row, for a row of the
    window."""
    outer, inner = Axis(f"{field}_factor_out", "iter_out"), Axis(step, _COLUMNS)
    base, where = (f"{2 * row} * row_step + {row}", (f"more_rows - {row - 1}",)) if row else ("0", ())
    return Access(memory, base, outer, inner, uop_field=field, reads=True, where=where)


def _begin_of(field: str, size: int) -> str:
    """Return the first element of the block of `size` elements whose number is `field`, counted from 1."""
    return f"{size} * {field} - {size}"


def _block(memory: MemoryType, base: str, size: int, *where: str) -> Access:
    """Return the read of a block of `size` elements, where all fields `where` are positive."""
    return Access(memory, base, ONCE, Axis("1", str(size)), reads=True, where=where)


def _outputs(*where: str) -> tuple[Access, Access]:
    """Return the writes of outputs into INP and into DRAM, where all fields `where` are positive."""
    inp, out = MemoryType.INP, MemoryType.OUT
    return (
        Access(inp, "dram_base", *_DRAM_ROWS, writes=True, where=where, of=inp),
        Access(out, "dram_base", *_DRAM_ROWS, writes=True, in_dram=True, where=where, of=out),
    )


_ACCUMULATORS = Access(MemoryType.OUT, "sram_base", *_STORED_ROWS, reads=True)
_PARAMETERS = _block(MemoryType.ACC, _begin_of("parameters", len(Parameter)), len(Parameter), "parameters")
_TABLE = _begin_of("table", isa.TABLE_ELEMENTS)
_MICRO_OPS = Access(MemoryType.UOP, "uop_begin", ONCE, Axis("1", MICRO_OP_COUNT), reads=True)
FOOTPRINTS: dict[type[isa.Instruction], Footprint] = {
    isa.Load: Footprint(
        None,
        ("x_size",),
        (
            Access(None, "sram_base", *_PADDED_ROWS, writes=True),
            Access(None, "dram_base", *_DRAM_ROWS, reads=True, in_dram=True),
        ),
    ),
    isa.Store: Footprint(
        Unit.STORE,
        ("y_size", "x_size"),
        (
            _ACCUMULATORS,
            _PARAMETERS,
            _block(MemoryType.TABLE, _TABLE, isa.TABLE_ELEMENTS, "parameters", "table"),
            _block(MemoryType.ACC, "0", len(Parameter), "parameters", "residual"),
            Access(
                MemoryType.RES, "residual - 1", *_STORED_ROWS, reads=True, where=("parameters", "residual")
            ),
            *_outputs(),
        ),
    ),
    isa.Gemm: Footprint(
        Unit.COMPUTE,
        ("iter_out", "iter_in", MICRO_OP_COUNT),
        (
            _MICRO_OPS,
            _operand("dst", MemoryType.ACC, reads=True, writes=True, fresh=("reset", "overwrite")),
            _operand("src", MemoryType.INP, reads=True, unless=("reset",)),
            _operand("wgt", MemoryType.WGT, reads=True, unless=("reset",)),
        ),
        "GEMM_STEPS",
    ),
    isa.Alu: Footprint(
        Unit.COMPUTE,
        ("iter_out", "iter_in", MICRO_OP_COUNT),
        (
            _MICRO_OPS,
            _operand("dst", MemoryType.ACC, reads=True, writes=True),
            _operand("src", MemoryType.ACC, reads=True, unless=("use_imm",)),
        ),
        "ALU_STEPS",
    ),
    isa.Depthwise: Footprint(
        Unit.COMPUTE,
        ("iter_out", MICRO_OP_COUNT, "iter_in"),
        (
            _MICRO_OPS,
            _operand("dst", MemoryType.ACC, reads=True, writes=True, fresh=("overwrite",)),
            _row_operand("src", MemoryType.INP, "src_factor_in"),
            _row_operand("wgt", MemoryType.WGT, "0"),
            *(_row_operand("src", MemoryType.INP, "src_factor_in", row) for row in range(1, MOST_ROWS)),
        ),
        "GEMM_STEPS",
    ),
    isa.Finish: Footprint(Unit.COMPUTE),
    isa.Gather: Footprint(
        Unit.LOAD,
        ("x_size",),
        (
            Access(MemoryType.INP, "sram_base", *_GATHERED_ROWS, writes=True),
            Access(
                MemoryType.INP,
                "dram_base",
                Axis("x_stride", "y_size"),
                Axis("step", "x_size"),
                reads=True,
                in_dram=True,
                in_bytes=True,
            ),
        ),
    ),
    isa.Normalise: Footprint(
        Unit.STORE,
        ("y_size", "x_size"),
        (
            _ACCUMULATORS,
            _PARAMETERS,
            _block(MemoryType.TABLE, _TABLE, isa.POWER_TABLE_ELEMENTS, "table"),
            _block(MemoryType.ACC, _begin_of("normal", len(NormalParameter)), len(NormalParameter), "normal"),
            *_outputs("normal"),
        ),
    ),
}
"""Of every form of instruction; an instruction without an entry is refused by what must know its accesses."""
MOST_ACCESSES = max(len(footprint.accesses) for footprint in FOOTPRINTS.values())


def executions() -> Iterator[tuple[type[isa.Instruction], MemoryType | None, Unit]]:
    """Yield every form of instruction, for LOADs with each memory type, and the unit that executes it."""
    for form, footprint in FOOTPRINTS.items():
        for memory in LOADABLE if footprint.unit is None else (None,):
            yield form, memory, executing_unit(form, memory)


def executing_unit(form: type[isa.Instruction], memory: MemoryType | None = None) -> Unit:
    """Return the unit that executes a form of instruction, a LOAD of this memory type."""
    unit = FOOTPRINTS[form].unit
    unit = MEMORIES[memory].loaded_by if unit is None and memory is not None else unit
    if unit is None:
        raise AssertionError(f"no unit executes {form.__name__} of {memory!r}")
    return unit


def stepping_forms() -> tuple[type[isa.Instruction], ...]:
    """Return the forms of instructions that step through micro-ops."""
    return tuple(form for form, footprint in FOOTPRINTS.items() if footprint.uses_uops)


def forms_in_dram() -> tuple[type[isa.Instruction], ...]:
    """Return the forms of instructions that access DRAM."""
    return tuple(
        form for form, footprint in FOOTPRINTS.items() if any(access.in_dram for access in footprint.accesses)
    )


def dram_access(form: type[isa.Instruction]) -> Access:
    """Return the access of a form of instruction to DRAM; it must be one of `forms_in_dram`."""
    return next(access for access in FOOTPRINTS[form].accesses if access.in_dram)


def operands(form: type[isa.Instruction], *flags: str) -> tuple[Access, ...]:
    """Return the accesses of a form of instruction through micro-ops that happen where `flags` are set."""
    accesses = (access for access in FOOTPRINTS[form].accesses if access.uop_field)
    return tuple(access for access in accesses if not set(flags) & set(access.unless))


def chip_access(form: type[isa.Instruction]) -> Access:
    """Return the access on chip of the elements that a form of `forms_in_dram` moves."""
    return next(access for access in FOOTPRINTS[form].accesses if not access.in_dram)


def meets_other_units(access: Access, form: type[isa.Instruction], memory: MemoryType | None = None) -> bool:
    """Whether an access on chip can conflict with another unit's: both use one scratchpad and one writes it.

    Args:
        form: the instruction that makes it.
        memory: the memory type of a LOAD.
    """
    unit, pad = executing_unit(form, memory), _scratchpad(access, memory)
    return any(
        other_unit is not unit
        and _scratchpad(other_access, loaded) is pad
        and (access.writes or other_access.writes)
        for other_form, loaded, other_unit in executions()
        for other_access in FOOTPRINTS[other_form].accesses
        if not other_access.in_dram
    )


def _scratchpad(access: Access, memory: MemoryType | None) -> MemoryType:
    counted = memory if access.memory is None else access.memory
    assert counted is not None, f"{access} counts elements of no memory"
    return scratchpad_of(counted)


@memoised(64)
def shared_accesses(form: type[isa.Instruction]) -> tuple[Access, ...]:
    """Return the accesses of a form of instruction that can conflict with another unit's, accesses to DRAM
    included."""
    memories = LOADABLE if FOOTPRINTS[form].unit is None else (None,)
    return tuple(
        access
        for access in FOOTPRINTS[form].accesses
        if access.in_dram or any(meets_other_units(access, form, memory) for memory in memories)
    )
