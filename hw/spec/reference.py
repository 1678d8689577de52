"""The generated pages of the documentation: instruction set, registers and configuration."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from inspect import getdoc
from typing import Any

from vdla.hw.spec import isa, registers, units
from vdla.hw.spec.config import LEAST_BLOCKS, NORMALISABLE, AcceleratorConfig
from vdla.hw.spec.declared import INDEX_LETTERS
from vdla.hw.spec.encoding import OPCODE_FIELD, WORD_BITS, layout
from vdla.hw.spec.footprint import FOOTPRINTS, Access
from vdla.hw.spec.memories import MEMORIES, loaded_by
from vdla.hw.spec.normalisation import (
    COUNT_BITS,
    INTERVAL_BITS,
    LEAST_VALUE,
    LEFT_OUT_BIT,
    MANTISSA_BITS,
    MEAN_FRACTION_BITS,
    OUTPUT_SHIFT,
    POWER_BITS,
    POWER_FRACTION_BITS,
    POWER_SHIFT,
    SCALED_BITS,
    STANDARD_FRACTION_BITS,
    STANDARD_SHIFT,
    SUM_BITS,
    TOTAL_BITS,
)
from vdla.hw.spec.numerics import ALU_OPERATIONS, BYTE_BITS, MULTIPLIER_BITS, SHIFT_BITS, TABLE_ENTRIES
from vdla.hw.spec.presets import DEFAULT, PRESETS
from vdla.hw.spec.vocabulary import (
    LEAST_WEIGHT_BITS,
    VTA_INSTRUCTION_BITS,
    VTA_UOP_BITS,
    AluOpcode,
    Extension,
    MemoryType,
    NormalParameter,
    Parameter,
    Statistic,
)
from vdla.hw.spec.window import PAIR

_NOTE = "<!-- Generated from the specification by `make docs`. -->\n"
_EXTENSIONS = {
    Extension.PAD_MINIMUM: "`LOAD.pad_minimum`: padding holds the least value of the element's type instead "
    "of zero",
    Extension.OVERWRITE: "`GEMM.overwrite`: the product replaces the accumulator instead of being added, so "
    "accumulators need no reset",
    Extension.REQUANTISE: "`STORE.parameters`: the store unit requantises values with the parameters of "
    "their channel",
    Extension.PAD_VALUE: "`LOAD.pad_value`: padding holds any 8-bit value, from a register of the unit",
    Extension.DEPTHWISE: "`DEPTHWISE`, for depthwise convolutions. It has no effect unless block_in and "
    f"block_out are equal and at least {LEAST_BLOCKS[Extension.DEPTHWISE]}",
    Extension.DEPTHWISE_ROWS: "`DEPTHWISE.more_rows`, `DEPTHWISE.row_step` and `DEPTHWISE.wide`: windows of "
    "several rows, and of five columns. It has no effect unless block_in and block_out are equal and at "
    f"least {LEAST_BLOCKS[Extension.DEPTHWISE_ROWS]}, with `packed` "
    f"{PAIR * LEAST_BLOCKS[Extension.DEPTHWISE_ROWS]}",
    Extension.TABLE: "`STORE.table` and the memory TABLE: each requantised value is replaced by its entry in "
    "a table of 256",
    Extension.GATHER: "`GATHER` loads inputs that begin at any byte and may overlap: windows of an image "
    "with few channels, parts of wider blocks",
    Extension.ACC_HALVES: "`LOAD.beside`: a LOAD writes one half of the accumulators while instructions use "
    "the other half",
    Extension.FEEDBACK: "STORE of memory type INP: outputs become inputs on chip, without DRAM. It has no "
    "effect unless block_in and block_out are equal",
    Extension.NARROW_WEIGHTS: "`LOAD.halvings`: weights of 8 bits take 4 or 2 bits in DRAM, weights of 4 "
    f"bits 2. It has no effect unless wgt_bits is more than {LEAST_WEIGHT_BITS} and an element of WGT more "
    "than a byte",
    Extension.RESIDUAL: "`STORE.residual` and the memory RES: another tensor is added to requantised values",
    Extension.NORMALISE: "`NORMALISE`: softmax and normalisations of rows. It has no effect unless batch is "
    f"{NORMALISABLE[0]}, inp_bits {NORMALISABLE[1]} and acc_bits {NORMALISABLE[2]}",
}
_RESIDUAL_PARAMETERS = {
    Parameter.BIAS: "`addend`: the whole accumulator, signed",
    Parameter.MULTIPLIER: f"`factor`: the low {MULTIPLIER_BITS} bits, signed; `other`: bits "
    f"{MULTIPLIER_BITS} to {2 * MULTIPLIER_BITS - 1}, signed",
    Parameter.SHIFT: "`shift` and `zero`, as above",
    Parameter.CLIP: "`least` and `greatest`, as above",
}
_PARAMETERS = {
    Parameter.BIAS: "`bias`: the whole accumulator, signed",
    Parameter.MULTIPLIER: f"`multiplier`: the low {MULTIPLIER_BITS} bits, unsigned",
    Parameter.SHIFT: f"`shift`: the low {SHIFT_BITS} bits, unsigned; `zero`: bits {BYTE_BITS} to "
    f"{2 * BYTE_BITS - 1}, signed",
    Parameter.CLIP: f"`least`: bits 0 to {BYTE_BITS - 1}, signed; `greatest`: bits {BYTE_BITS} to "
    f"{2 * BYTE_BITS - 1}, signed",
}
_REQUANTISED = f"""\
With the extension `{Extension.REQUANTISE}`, a STORE with `parameters` = s > 0 does not write the low bits
of an accumulator. It writes
```
clip(zero + round((acc + bias) * multiplier / 2^shift), least, greatest)
```
`acc + bias` wraps at the accumulator's width. The product and the following steps are exact; halves round up.
Set s occupies {len(Parameter)} accumulator elements from element {len(Parameter)} * (s - 1) on. There are
at most {isa.MOST_PARAMETER_SETS} sets. LOADs of ACC write them. Each value uses the parameters at its own row
and column of the element. Bits not named have no effect.
"""


_LOOKED_UP = f"""\
With the extension `{Extension.TABLE}`, a STORE with `table` = n > 0 and `parameters` > 0 replaces each
requantised value by its entry in table n. The first {TABLE_ENTRIES // 2} entries are for the values
0 to {TABLE_ENTRIES // 2 - 1}, the others for {-TABLE_ENTRIES // 2} to -1. An entry is a byte. Table n
occupies the {isa.TABLE_ELEMENTS} elements of TABLE from element {isa.TABLE_ELEMENTS} * (n - 1) on. Outputs
narrower than a byte are the low bits of entries.
"""
_ADDED = f"""\
With the extension `{Extension.RESIDUAL}`, a STORE with `residual` = n > 0 and `parameters` = s > 0 writes
```
clip(zero + round((value * factor + residual * other + addend) / 2^shift), least, greatest)
```
`value` is the result of requantisation, or of the table. `residual` is the value at the same row and column
in element n - 1 + y * x_size + x of RES. The sum is exact; halves round up. One set of parameters applies to
all values. It is stored in the first value (row 0, column 0) of each of the first {len(Parameter)}
accumulator elements. Accumulators of 16 bits are sign-extended.
"""
_NORMALISED = f"""\
With the extension `{Extension.NORMALISE}`, NORMALISE gathers statistics of rows, or writes outputs that are
normalised by them. `value` is a requantised value, or the low {BYTE_BITS} bits of an accumulator, signed.

The store unit holds `greatest`, `powers`, `total` and `squares` of {isa.NORMAL_ROWS} rows. Their values are:

- `greatest`: the greatest value of the row, {BYTE_BITS} bits, signed. It is {LEAST_VALUE} for no values.
- `powers`: the sum of the powers of the values, {SUM_BITS} bits, unsigned. It wraps.
- `total`: the sum of the values, {TOTAL_BITS} bits, signed. It wraps.
- `squares`: the sum of the squares of the values, {SUM_BITS} bits, unsigned. It wraps.

Values whose CLIP parameter has bit {LEFT_OUT_BIT} set are left out of these. Outputs are written for all
values.

The distance of a value is `greatest - value`, modulo {1 << BYTE_BITS}. With `table` = n > 0, the power of the
value is the entry of its distance in the table of powers. Entries have {POWER_BITS} bits, unsigned, the low
byte first. The table occupies the {isa.POWER_TABLE_ELEMENTS} elements of TABLE from element
{isa.TABLE_ELEMENTS} * (n - 1) on: the place of the tables n and n + 1 of a STORE. With `table` = 0, the power
is the distance.

With `normal` = s > 0, NORMALISE writes
```
scaled = saturate(floor(operand * m / 2^shift), {SCALED_BITS} bits)
output = saturate(floor((scaled * factor + addend) / 2^{OUTPUT_SHIFT}), {BYTE_BITS} bits)
```
All steps in between are exact. The statistic gives operand, m and shift:
"""
_ROW_SCALES = {
    Statistic.GREATEST: ("the power", "1", "0"),
    Statistic.POWERS: (
        "the power",
        "m and e of 1 / `powers` = m / 2^(31 + e)",
        f"{POWER_SHIFT} + e",
    ),
    Statistic.MOMENTS: (
        f"value * 2^{MEAN_FRACTION_BITS} - mean",
        "m and e of 1 / sqrt(`spread`) = m / 2^(23 + e)",
        f"max({STANDARD_SHIFT} - `exponent` + e, 0)",
    ),
}
_SPREAD = f"""\
```
mean   = round(total * reciprocal / 2^({COUNT_BITS - MEAN_FRACTION_BITS} + exponent)); halves round up
spread = max(count * squares - total^2 + epsilon, 0)
```
`mean` has {MEAN_FRACTION_BITS} fraction bits. If `reciprocal` is 0, `mean` is 0 and `spread` leaves `total`
out: outputs are divided by the root of the mean square. `count` is the number of values of a row, and
`exponent` is floor(log2(count)). `reciprocal` is round(2^({COUNT_BITS} + exponent) / count), at most
{(1 << COUNT_BITS) - 1}. `epsilon` is added to count^2 times the variance. The scaled value of MOMENTS is
2^{STANDARD_FRACTION_BITS} * 2^exponent / count times the value in standard deviations, so the factor must
include count / 2^exponent. The scaled value of POWERS is 2^{POWER_FRACTION_BITS} times the quotient.

m has {MANTISSA_BITS} bits. It comes from a table of {1 << INTERVAL_BITS} intervals, between whose ends it is
interpolated. Its relative error is less than 2^-14. If `powers` or `spread` is 0, m and e are 0.
`vdla.hw.spec.normalisation` defines the tables.

Set s occupies {len(NormalParameter)} accumulator elements from element {len(NormalParameter)} * (s - 1) on.
`addend` and `factor` are those at the column of the value. The other parameters are those of column 0. Bits
not named have no effect.
"""
_NORMAL_PARAMETERS = {
    NormalParameter.ADDEND: "`addend`: the whole accumulator, signed",
    NormalParameter.FACTOR: f"`factor`: the low {MULTIPLIER_BITS} bits, signed; `exponent`: bits "
    f"{MULTIPLIER_BITS} to {MULTIPLIER_BITS + 3}, unsigned",
    NormalParameter.COUNT: f"`count`: the low {MULTIPLIER_BITS} bits, unsigned; `reciprocal`: bits "
    f"{COUNT_BITS} to {2 * COUNT_BITS - 1}, unsigned",
    NormalParameter.EPSILON: "`epsilon`: the whole accumulator, unsigned",
}


def _table(head: tuple[str, ...], rows: Iterable[Iterable[object]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)


def isa_page() -> str:
    """Return the reference page of the instruction set."""
    forms = "\n".join([*map(_form, isa.INSTRUCTIONS), _form(isa.MicroOp)])
    requantised = _parameters("holds, for each channel", _PARAMETERS)
    return (
        f"{_NOTE}# Instruction set\n{_ISA_INTRODUCTION}\n"
        f"{forms}\n## Memory types\n{_memories()}\n## ALU operations\n{_alu()}\n## Units and "
        f"tokens\n{_ORDER}\n{_units()}\n## What instructions touch\n{_TOUCHED}\n{_accesses()}\n"
        f"## Extensions\n{_extensions()}\n## Requantisation\n{_REQUANTISED}\n{requantised}\n"
        f"## Tables\n{_LOOKED_UP}\n## Residuals\n{_ADDED}\n{_parameters('holds', _RESIDUAL_PARAMETERS)}"
        f"\n## Normalisation\n{_NORMALISED}\n{_row_scales()}\n{_SPREAD}\n"
        f"{_parameters('holds', _NORMAL_PARAMETERS)}"
    )


_LETTERS = ", ".join(
    f"{letter} = log2 of the {memory.name} depth" for letter, memory in INDEX_LETTERS.items()
)
_ISA_INTRODUCTION = f"""\
This page gives the encoding and meaning of every instruction. It is for people who write streams, decoders or
hardware.
`vdla disasm tests/vectors/vta/conv3x3_d.npz` prints a stream as text; `vdla asm` assembles it.

Task instructions have {VTA_INSTRUCTION_BITS} bits and micro-ops {VTA_UOP_BITS}, as in VTA. Fields are packed
from bit 0 upward in the order given. A field that would cross a multiple of {WORD_BITS} starts at it.
Fields of extensions then take the lowest free bits. Widths follow from the configuration:
{_LETTERS}.

If the fields of a micro-op need more bits, all micro-ops of the configuration have {2 * VTA_UOP_BITS}.
If the fields of one instruction need more, all instructions have {2 * VTA_INSTRUCTION_BITS}. The fields
that do not fit the first two words of {WORD_BITS} bits are then in the third and fourth. `vdla config`
shows both widths. A stream is little-endian. Its address is a multiple of an instruction's bytes.

The tables show the bits of the configuration `{DEFAULT.name}`. Every address counts elements of its memory.
"""
_ORDER = """\
The order of the units is load, compute, store: the previous unit of compute is load, the next one is store.
"""


def _form(form: isa.Form) -> str:
    if issubclass(form, isa.MicroOp):
        title, opcode = "Micro-op", []
    else:
        title, opcode = f"{form.opcode.name} (opcode {form.opcode.value})", [OPCODE_FIELD]
    rows = (
        (
            f"`{field.name}`",
            f"{field.start}..{field.end - 1}",
            field.formula + (", signed" if field.signed else ""),
            field.help,
        )
        for field in (*opcode, *layout(form, DEFAULT))
    )
    return f"## {title}\n{getdoc(form)}\n\n{_table(('field', 'bits', 'width', 'meaning'), rows)}"


def _memories() -> str:
    return _table(
        ("value", "name", "element"), ((memory.value, memory.name, _element(memory)) for memory in MemoryType)
    )


def _element(memory: MemoryType) -> str:
    about = MEMORIES[memory]
    return f"{about.rows} x {about.columns} {about.values}" if about.rows else about.values


def _alu() -> str:
    rows = ((opcode.value, opcode.name, ALU_OPERATIONS[opcode].result) for opcode in AluOpcode)
    return _table(("value", "name", "result"), rows)


def _units() -> str:
    runs = {unit: "; ".join(_executed_by(unit)) for unit in units.Unit}
    edges = _table(
        ("edge", "pushed by", "popped by"),
        (
            (
                edge,
                f"`{edge.push_flag}` of {edge.producer.name.lower()}",
                f"`{edge.pop_flag}` of {edge.consumer.name.lower()}",
            )
            for edge in units.TOKEN_EDGES
        ),
    )
    return (
        _table(("unit", "executes"), ((unit.name.lower(), runs[unit]) for unit in units.Unit)) + "\n" + edges
    )


_TOUCHED = """\
An access touches the elements `base + i * outer step + j * inner step` of its memory, for all trips i and j.
`uop.dst` is the field of each micro-op in `uop_begin` to `uop_end - 1`. An instruction touches nothing if its
trips are not positive. Tokens, bounds checks and the verifier follow from this table.
"""


def _accesses() -> str:
    """Return the table of what each instruction reads and writes."""
    rows = (
        (form.opcode.name, *_access_cells(access))
        for form, footprint in FOOTPRINTS.items()
        for access in footprint.accesses
    )
    return _table(
        ("instruction", "does", "base", "outer axis: trips x step", "inner axis: trips x step", "if"), rows
    )


def _access_cells(access: Access) -> Iterator[str]:
    """Yield the cells of an access."""
    memory = "the memory of `memory_type`" if access.memory is None else access.memory.name
    done = " and ".join(verb for verb, does in (("reads", access.reads), ("writes", access.writes)) if does)
    fresh = f" (only writes if {_named(access.fresh)})" if access.fresh else ""
    yield f"{done} {memory}{' in DRAM' if access.in_dram else ''}{fresh}"
    added = "" if access.base == "0" else f" + {access.base}"
    yield f"`uop.{access.uop_field}{added}`" if access.uop_field else f"`{access.base}`"
    for axis in (access.outer, access.inner):
        yield f"`({axis.every}) x ({axis.step})`"
    conditions = [f"`{text} > 0`" for text in access.where]
    conditions += [f"not `{name}`" for name in access.unless]
    conditions += [] if access.of is None else [f"`memory_type` is {access.of.name}"]
    yield " and ".join(conditions) or "always"


def _named(names: Iterable[str]) -> str:
    return " or ".join(f"`{name}`" for name in names)


def _executed_by(unit: units.Unit) -> Iterator[str]:
    """Yield what a unit executes."""
    loaded = [memory.name for memory in loaded_by(unit)]
    if loaded:
        *first, last = loaded
        yield f"LOAD of {', '.join(first)} and {last}"
    yield from (form.opcode.name for form, footprint in FOOTPRINTS.items() if footprint.unit is unit)


def _extensions() -> str:
    return _table(
        ("extension", "adds"), ((f"`{extension}`", _EXTENSIONS[extension]) for extension in Extension)
    )


def _parameters(holds: str, meanings: Mapping[Any, str]) -> str:
    """Return the table of the parameters of a set; `meanings`: by member of their enumeration, in order."""
    return _table(
        ("element", "name", holds), ((row.value, row.name, meaning) for row, meaning in meanings.items())
    )


def _row_scales() -> str:
    """Return the table of what scales a value."""
    return _table(
        ("statistic", "operand", "m", "shift"),
        ((statistic.name, *cells) for statistic, cells in _ROW_SCALES.items()),
    )


_REGISTERS_INTRODUCTION = """\
This page lists the host-visible registers. It is for people who write drivers or connect the accelerator to a
bus. `vdla verilog` also writes this list next to the Verilog. A register has 32 bits; offsets are in bytes.

In each cycle of a run a unit is in exactly one state. A counter counts the cycles of each state except idle.
The remaining cycles of a unit were idle.
"""


def registers_page() -> str:
    """Return the reference page of the host-visible registers."""
    rows = (
        (f"{register.offset:#05x}", f"`{register.name}`", register.access.value, register.help)
        for register in registers.REGISTERS
    )
    bits = [
        (kind.__name__.upper(), f"`{bit.name}`", f"{bit.value:#x}", meanings[bit])
        for kind, meanings in registers.MEANING.items()
        for bit in kind
    ]
    return (
        f"# Registers\n{_REGISTERS_INTRODUCTION}\n"
        f"{_table(('offset', 'register', 'access', 'meaning'), rows)}\n"
        f"{_table(('register', 'bit', 'mask', 'meaning'), bits)}"
    )


_CONFIGURATION_INTRODUCTION = """\
This page lists the parameters of an accelerator. It is for people who choose or change a configuration. The
option `--config` takes a preset or a TOML file, and `--set` changes a parameter.
`vdla config default --set block_in=32` shows the parameters and the values derived from them.
`--set extensions=+table` adds an extension to the list, and `--set extensions=-table` removes one.
"""


def configuration_page() -> str:
    """Return the page of parameters and presets."""
    declared = [field for field in fields(AcceleratorConfig) if field.name != "name"]
    rows = (
        (
            f"`{field.name}`",
            _plain(getattr(AcceleratorConfig(), field.name)),
            _allowed(field.metadata),
            field.metadata["help"],
        )
        for field in declared
    )
    changed = [
        field.name
        for field in declared
        if len({getattr(config, field.name) for config in PRESETS.values()}) > 1
    ]
    presets = (
        (f"`{name}`", *(_plain(getattr(config, key)) for key in changed)) for name, config in PRESETS.items()
    )
    return (
        f"{_NOTE}# Configuration\n{_CONFIGURATION_INTRODUCTION}\n"
        f"{_table(('parameter', 'default', 'allowed', 'meaning'), rows)}\n"
        f"## Presets: the parameters that differ\n{_table(('preset', *changed), presets)}"
    )


def _plain(value: object) -> object:
    return ", ".join(member.name for member in value) or "none" if isinstance(value, tuple) else value


def _allowed(limits: Mapping[str, Any]) -> str:
    if "low" not in limits:
        return "any subset"
    if limits["choices"]:
        return ", ".join(map(str, limits["choices"]))
    if limits["power"]:
        zero = "" if limits["low"] else "0, or "
        return f"{zero}{limits['low'] or 1}..{limits['high']}, a power of two"
    return f"{limits['low']}..{limits['high']}"


PAGES = {
    "isa.md": isa_page,
    "configuration.md": configuration_page,
    "registers.md": lambda: _NOTE + registers_page(),
}
