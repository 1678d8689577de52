"""Which instructions mean something, declared once: the values that their enumerated fields may have."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import EncodingError
from vdla.hw.spec.memories import loadable_in, memories_of, storable_in
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType


@dataclass(frozen=True, slots=True)
class Restriction:
    """What an instruction's enumerated field must be for the instruction to mean something.

    Attributes:
        field: its name.
        allowed: the values that a configuration allows.
        refusal: what to say of another value, with `allowed` as a list of names.
        moot: a field; where it is 0, any member of the enumeration is allowed. Empty: there is none.
        brought: values that only an extension allows, with the extension.
    """

    field: str
    allowed: Callable[[AcceleratorConfig], tuple[MemoryType | AluOpcode, ...]]
    refusal: str
    moot: str = ""
    brought: tuple[tuple[MemoryType, Extension], ...] = ()


RESTRICTIONS: dict[type[isa.Instruction], Restriction] = {
    isa.Load: Restriction("memory_type", loadable_in, "cannot be loaded; {allowed} can"),
    isa.Store: Restriction(
        "memory_type",
        storable_in,
        "cannot be stored; only {allowed} can",
        "x_size",
        ((MemoryType.INP, Extension.FEEDBACK),),
    ),
    isa.Gather: Restriction(
        "memory_type", lambda config: (MemoryType.INP,), "cannot be gathered; only {allowed} can"
    ),
    isa.Alu: Restriction(
        "alu_opcode",
        lambda config: config.alu_opcodes,
        "is not built into this configuration; it has {allowed}",
    ),
}
"""By form; the others always mean something."""


def check_form(form: type[isa.Instruction], config: AcceleratorConfig) -> None:
    """Refuse a form of instruction that this configuration does not have.

    Raises:
        EncodingError: the form belongs to an extension that is off.
    """
    if form.extension is not None and not config.has(form.extension):
        raise EncodingError(f"{form.opcode.name} needs {missing(form.extension, config)}")


def missing(extension: Extension, config: AcceleratorConfig) -> str:
    """Return which extension a configuration lacks, and why."""
    if extension not in config.extensions:
        return f"the extension {extension.value!r}, which this configuration has switched off"
    return (
        f"the extension {extension.value!r}, which has no effect with block_in = {config.block_in} and "
        f"block_out = {config.block_out}: they must be equal and at least {config.least_block(extension)}"
    )


def members(kind: type[int], config: AcceleratorConfig) -> tuple[IntEnum, ...]:
    """Return the members of a field's kind that a configuration has; none where it is a number."""
    if kind is MemoryType:
        return memories_of(config)
    return tuple(kind) if issubclass(kind, IntEnum) else ()


def check_meaning(instruction: isa.Instruction, config: AcceleratorConfig) -> None:
    """Refuse field values that are encodable but name nothing this configuration has.

    Raises:
        EncodingError: a LOAD into OUT, a STORE into neither OUT nor INP, an ALU operation that is not built.
    """
    rule = RESTRICTIONS.get(type(instruction))
    if rule is None or (rule.moot and not getattr(instruction, rule.moot)):
        return
    value, allowed = getattr(instruction, rule.field), rule.allowed(config)
    if value not in allowed:
        name = f"{instruction.opcode.name}.{rule.field} = {value.name}"
        for brought, extension in rule.brought:
            if value == brought:
                raise EncodingError(f"{name} needs {missing(extension, config)}")
        names = ", ".join(member.name for member in allowed) or "none"
        raise EncodingError(f"{name} {rule.refusal.format(allowed=names)}")
