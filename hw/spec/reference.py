"""The generated pages of the documentation: instruction set, registers, configuration."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from inspect import getdoc
from typing import Any

from vdla.hw.spec import isa, registers, units
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.numerics import BYTE_BITS, MULTIPLIER_BITS, SHIFT_BITS
from vdla.hw.spec.presets import DEFAULT, PRESETS
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType, Parameter

_NOTE = "<!-- Generated from the specification by `make docs`. -->\n"
_ALU = {
    AluOpcode.MIN: "the smaller of both",
    AluOpcode.MAX: "the greater of both",
    AluOpcode.ADD: "sum, wrapping",
    AluOpcode.SHR: "arithmetic shift right, left where the amount is negative",
    AluOpcode.MUL: "low bits of the product",
}
_EXTENSIONS = {
    Extension.PAD_MINIMUM: "`LOAD.pad_minimum` (bit 58): padding holds the least value of the element's "
    "type instead of zero",
    Extension.OVERWRITE: "`GEMM.overwrite` (the lowest free bit): the product is written instead of "
    "added, so that accumulators need no reset",
    Extension.REQUANTISE: "`STORE.parameters` (bits 58 to 63): values are requantised, each channel by "
    "its own parameters, on their way to DRAM",
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
With the extension `{Extension.REQUANTISE}`, a STORE whose `parameters` is s > 0 writes,
in place of an accumulator's low bits,
```
clip(zero + round((acc + bias) * multiplier / 2^shift), least, greatest)
```
`acc + bias` wraps at the accumulator's width. The product and the following steps are exact; halves round up.
The parameters of set s are the {len(Parameter)} accumulator elements from {len(Parameter)} * (s - 1) on.
There are at most {isa.MOST_PARAMETER_SETS} sets. LOADs of ACC fill them. Each value uses the parameters
of its own row and column in the element. Bits not named have no meaning.
"""


def _table(head: tuple[str, ...], rows: Iterable[Iterable[object]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)


def isa_page() -> str:
    """Return the reference page of the instruction set."""
    forms = "\n".join([*map(_form, isa.INSTRUCTIONS), _form(isa.MicroOp)])
    return (
        f"{_NOTE}# Instruction set\nTask instructions have 128 bits, micro-ops 32. Bit positions are "
        "those of the configuration "
        f"`{DEFAULT.name}`; widths follow from the configuration: {_letters()}. Fields are packed from "
        "bit 0 upward in the order "
        "given; one that would cross bit 64 starts at bit 64. Fields of extensions then take the lowest "
        "bits that are free. "
        "Every address counts elements of its memory.\n\n"
        f"{forms}\n## Memory types\n{_memories()}\n## ALU operations\n{_alu()}\n## Units and "
        f"tokens\n{_units()}\n"
        f"## Extensions\n{_extensions()}\n## Requantisation\n{_REQUANTISED}\n{_parameters()}"
    )


def _letters() -> str:
    return ", ".join(
        f"{letter} = log2 of the {memory.name} depth" for letter, memory in isa.INDEX_LETTERS.items()
    )


def _form(form: isa.Form) -> str:
    if issubclass(form, isa.MicroOp):
        title, opcode = "Micro-op", []
    else:
        title, opcode = f"{form.opcode.name} (opcode {form.opcode.value})", [isa.OPCODE_FIELD]
    rows = (
        (
            f"`{field.name}`",
            f"{field.start}..{field.end - 1}",
            field.formula + (", signed" if field.signed else ""),
            field.help,
        )
        for field in (*opcode, *isa.layout(form, DEFAULT))
    )
    return f"## {title}\n{getdoc(form)}\n\n{_table(('field', 'bits', 'width', 'meaning'), rows)}"


def _memories() -> str:
    sizes = {
        MemoryType.UOP: "32 bits",
        MemoryType.WGT: "block_out x block_in weights",
        MemoryType.INP: "batch x block_in inputs",
        MemoryType.ACC: "batch x block_out accumulators",
        MemoryType.OUT: "batch x block_out outputs",
        MemoryType.ACC_8BIT: "batch x block_out outputs, widened into ACC",
    }
    return _table(
        ("value", "name", "element"), ((memory.value, memory.name, sizes[memory]) for memory in MemoryType)
    )


def _alu() -> str:
    return _table(
        ("value", "name", "result"), ((opcode.value, opcode.name, _ALU[opcode]) for opcode in AluOpcode)
    )


def _units() -> str:
    runs = {
        units.Unit.LOAD: "LOAD of INP and WGT",
        units.Unit.COMPUTE: "LOAD of UOP, ACC and ACC_8BIT; GEMM; ALU; FINISH",
        units.Unit.STORE: "STORE",
    }
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


def _extensions() -> str:
    return _table(
        ("extension", "adds"), ((f"`{extension}`", _EXTENSIONS[extension]) for extension in Extension)
    )


def _parameters() -> str:
    return _table(
        ("element", "name", "holds, for each channel"),
        ((row.value, row.name, _PARAMETERS[row]) for row in Parameter),
    )


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
        f"# Registers\n32 bits each, at byte offsets. A unit's cycles that no counter names were idle.\n\n"
        f"{_table(('offset', 'register', 'access', 'meaning'), rows)}\n"
        f"{_table(('register', 'bit', 'mask', 'meaning'), bits)}"
    )


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
        f"{_NOTE}# Configuration\n{_table(('parameter', 'default', 'allowed', 'meaning'), rows)}\n"
        f"## Presets, where they differ\n{_table(('preset', *changed), presets)}"
    )


def _plain(value: object) -> object:
    return ", ".join(member.name for member in value) or "none" if isinstance(value, tuple) else value


def _allowed(limits: Mapping[str, Any]) -> str:
    if "low" not in limits:
        return "any subset"
    if limits["choices"]:
        return ", ".join(map(str, limits["choices"]))
    return f"{limits['low']}..{limits['high']}" + (", a power of two" if limits["power"] else "")


PAGES = {
    "isa.md": isa_page,
    "configuration.md": configuration_page,
    "registers.md": lambda: _NOTE + registers_page(),
}
