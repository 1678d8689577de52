"""How fields of instructions are declared: as fields of dataclasses, with their width and meaning beside."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Protocol, TypeVar

from vdla.hw.spec.vocabulary import VTA_LOOP_BITS, VTA_SRAM_BASE_BITS, Extension, MemoryType


class Depths(Protocol):
    """What the field widths of the encoding depend on. `AcceleratorConfig` implements it."""

    def index_bits(self, memory: MemoryType) -> int:
        """Return the bits of an on-chip element index of `memory`."""

    def has(self, extension: Extension) -> bool:
        """Return whether an extension is on."""


INDEX_LETTERS = {"U": MemoryType.UOP, "I": MemoryType.INP, "W": MemoryType.WGT, "A": MemoryType.ACC}

Code = TypeVar("Code", bound=IntEnum)

ROW_BITS = f"min({VTA_LOOP_BITS},I)"
ANY_INDEX = f"max({VTA_SRAM_BASE_BITS},{','.join(INDEX_LETTERS)})"
_VARIABLE_WIDTHS: Mapping[str, Callable[[Callable[[MemoryType], int]], int]] = {
    "U": lambda bits: bits(MemoryType.UOP),
    "U+1": lambda bits: bits(MemoryType.UOP) + 1,
    "I": lambda bits: bits(MemoryType.INP),
    "W": lambda bits: bits(MemoryType.WGT),
    "A": lambda bits: bits(MemoryType.ACC),
    "I-1": lambda bits: bits(MemoryType.INP) - 1,
    ROW_BITS: lambda bits: min(VTA_LOOP_BITS, bits(MemoryType.INP)),
    "max(A,I)": lambda bits: max(bits(MemoryType.ACC), bits(MemoryType.INP)),
    ANY_INDEX: lambda bits: max(VTA_SRAM_BASE_BITS, *map(bits, INDEX_LETTERS.values())),
}


def bits(
    width: int | str,
    help_text: str,
    *,
    signed: bool = False,
    extension: Extension | None = None,
    instead_of: tuple[str, ...] = (),
    gives_way_to: Extension | None = None,
    room: int = 0,
) -> int:
    """Declare an encoded number: its width (in bits, or a formula over U, I, W, A) and its meaning.

    Args:
        extension: that brings the field.
        instead_of: fields of VTA whose bits a field of an extension takes.
        gives_way_to: the extension with which the field is not there, as another has its bits.
        room: bits from the field's first bit to the next field's; bits that the field leaves are free;
            0: the width.
    """
    about = _about(width, help_text, signed, int, extension)
    placing = {"instead_of": instead_of, "gives_way_to": gives_way_to, "room": room}
    return field(default=0, metadata={**about, **placing})


def code(width: int, help_text: str, kind: type[Code]) -> Code:
    """Declare an encoded field that names a member of `kind`."""
    return field(default=kind(0), metadata=_about(width, help_text, False, kind, None))


def _about(
    width: int | str, help_text: str, signed: bool, kind: type[int], extension: Extension | None
) -> Mapping[str, object]:
    return {
        "width": width,
        "help": help_text,
        "signed": signed,
        "kind": kind,
        "extension": extension,
        "instead_of": (),
        "gives_way_to": None,
        "room": 0,
    }


def width_of(formula: int | str, config: Depths) -> int:
    """Return the bits of a field whose width was declared as `formula`."""
    if isinstance(formula, int):
        return formula
    return _VARIABLE_WIDTHS[formula](config.index_bits)


@dataclass(frozen=True, slots=True)
class PlacedField:
    """A field in the encoding of one configuration: bits `start` to `end - 1`."""

    name: str
    start: int
    width: int
    signed: bool
    kind: type[int]
    formula: str
    help: str

    @property
    def end(self) -> int:
        """One past the field's highest bit."""
        return self.start + self.width

    @property
    def low(self) -> int:
        """Least value the field can hold."""
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        """Greatest value the field can hold."""
        return (1 << (self.width - self.signed)) - 1
