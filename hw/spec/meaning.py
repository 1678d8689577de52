"""Which instructions mean something, declared once: the values that some of their fields may have."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from vdla.hw.spec import encoding, isa
from vdla.hw.spec.config import NORMALISABLE, AcceleratorConfig
from vdla.hw.spec.errors import EncodingError
from vdla.hw.spec.memories import loadable_in, memories_of, storable_in
from vdla.hw.spec.vocabulary import Extension, MemoryType, Statistic


@dataclass(frozen=True, slots=True)
class Restriction:
    """What a field of an instruction must be for the instruction to mean something.

    Attributes:
        field: its name.
        allowed: the values that a configuration allows.
        refusal: what to say of another value, with `allowed` as a list.
        moot: a field; where it is 0, any member of the enumeration is allowed. Empty: there is none.
        brought: values that only an extension allows, with the extension.
        of: the memory type of the instructions that are restricted; None: all are.
    """

    field: str
    allowed: Callable[[AcceleratorConfig], Sequence[int]]
    refusal: str
    moot: str = ""
    brought: tuple[tuple[MemoryType, Extension], ...] = ()
    of: MemoryType | None = None


_STORABLE = Restriction(
    "memory_type",
    storable_in,
    "cannot be stored; only {allowed} can",
    "x_size",
    ((MemoryType.INP, Extension.FEEDBACK),),
)
RESTRICTIONS: dict[type[isa.Instruction], tuple[Restriction, ...]] = {
    isa.Load: (
        Restriction("memory_type", loadable_in, "cannot be loaded; {allowed} can"),
        Restriction(
            "halvings",
            lambda config: config.halvings(MemoryType.WGT),
            "leaves less than the narrowest weight, or less than a byte of an element; {allowed} can be used",
            of=MemoryType.WGT,
        ),
    ),
    isa.Store: (_STORABLE,),
    isa.Normalise: (
        _STORABLE,
        Restriction("statistic", lambda config: tuple(Statistic), "is no statistic; {allowed} are"),
    ),
    isa.Gather: (
        Restriction(
            "memory_type", lambda config: (MemoryType.INP,), "cannot be gathered; only {allowed} can"
        ),
    ),
    isa.Alu: (
        Restriction(
            "alu_opcode",
            lambda config: config.alu_opcodes,
            "is not built into this configuration; it has {allowed}",
        ),
    ),
}
"""By form; the others always mean something."""


def restrictions_of(form: type[isa.Instruction], config: AcceleratorConfig) -> tuple[Restriction, ...]:
    """Return the restrictions of a form of instruction on the fields that a configuration has."""
    present = {placed.name for placed in encoding.layout(form, config)}
    return tuple(rule for rule in RESTRICTIONS.get(form, ()) if rule.field in present)


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
    if extension is Extension.NARROW_WEIGHTS:
        return (
            f"the extension {extension.value!r}, which has no effect with weights of {config.wgt_bits} bits "
            f"in elements of {config.element_bytes(MemoryType.WGT)} bytes"
        )
    if extension is Extension.NORMALISE:
        batch, inp_bits, acc_bits = NORMALISABLE
        return (
            f"the extension {extension.value!r}, which has no effect with batch = {config.batch}, inp_bits = "
            f"{config.inp_bits} and acc_bits = {config.acc_bits}: they must be {batch}, {inp_bits} and "
            f"{acc_bits}"
        )
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
        EncodingError: a LOAD into OUT, a STORE or NORMALISE into neither OUT nor INP, a statistic that is
            none, an ALU operation that is not built, too many halvings of weights.
    """
    for rule in RESTRICTIONS.get(type(instruction), ()):
        is_moot = bool(rule.moot) and not getattr(instruction, rule.moot)
        if not is_moot and (rule.of is None or getattr(instruction, "memory_type", None) is rule.of):
            _check_field(instruction, rule, config)


def _check_field(instruction: isa.Instruction, rule: Restriction, config: AcceleratorConfig) -> None:
    """Refuse a value that a restriction does not allow."""
    value, allowed = getattr(instruction, rule.field), rule.allowed(config)
    if value in allowed:
        return
    name = f"{instruction.opcode.name}.{rule.field} = {_shown(value)}"
    for brought, extension in rule.brought:
        if value == brought:
            raise EncodingError(f"{name} needs {missing(extension, config)}")
    names = ", ".join(map(_shown, allowed)) or "none"
    raise EncodingError(f"{name} {rule.refusal.format(allowed=names)}")


def _shown(value: int) -> str:
    """Return a value of a field as messages show it."""
    return value.name if isinstance(value, IntEnum) else str(value)
