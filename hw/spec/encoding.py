"""The encoding: the bits of every field of instructions and micro-ops, and the widths of both.

Fields are packed in order. A field that would cross a multiple of 64 starts at it, which is how C packs the
bit-fields of VTA's structures. Instructions and micro-ops have VTA's widths where all fields fit, and the
next power of two that holds them where they do not.

Source: VTA's `hw_spec.h`.
"""

from collections.abc import Iterable
from dataclasses import Field, fields
from itertools import count

from vdla.hw.spec import isa
from vdla.hw.spec.declared import Depths, PlacedField, width_of
from vdla.hw.spec.memo import memoised
from vdla.hw.spec.vocabulary import VTA_INSTRUCTION_BITS, VTA_UOP_BITS

OPCODE_BITS = 3
WORD_BITS = 64
OPCODE_FIELD = PlacedField("opcode", 0, OPCODE_BITS, False, isa.Opcode, str(OPCODE_BITS), "instruction")


@memoised(1024)
def layout(form: isa.Form, config: Depths) -> tuple[PlacedField, ...]:
    """Place the fields of `form` (an instruction class, or `MicroOp`) for `config`.

    VTA's fields are packed in order. Fields of enabled extensions then take the bits of the fields that they
    stand instead of, or the lowest free bits, so that they do not move other fields. Returns the fields in
    order of declaration, without the opcode, the fields of disabled extensions and fields that give way.
    """
    placed: dict[str, PlacedField] = {}
    position = 0 if form is isa.MicroOp else OPCODE_BITS
    for declared in _own_fields(form):
        width = width_of(declared.metadata["width"], config)
        room = declared.metadata["room"] or width
        if position // WORD_BITS != (position + room - 1) // WORD_BITS:
            position = -(-position // WORD_BITS) * WORD_BITS
        placed[declared.name] = _place(declared, position, width)
        position += room
    for declared in _extension_fields(form, config):
        width, others = width_of(declared.metadata["width"], config), declared.metadata["instead_of"]
        start = placed[others[0]].start if others else _free_position(placed.values(), width)
        placed[declared.name] = _place(declared, start, width)
    return tuple(
        placed[declared.name]
        for declared in fields(form)
        if declared.name in placed and not _gives_way(declared, config)
    )


def _gives_way(declared: Field[int], config: Depths) -> bool:
    """Return whether another field has the bits of this field."""
    extension = declared.metadata["gives_way_to"]
    return extension is not None and config.has(extension)


def _own_fields(form: isa.Form) -> list[Field[int]]:
    return [declared for declared in fields(form) if declared.metadata["extension"] is None]


def _extension_fields(form: isa.Form, config: Depths) -> list[Field[int]]:
    return [
        declared
        for declared in fields(form)
        if declared.metadata["extension"] is not None and config.has(declared.metadata["extension"])
    ]


def _place(declared: Field[int], position: int, width: int) -> PlacedField:
    about = declared.metadata
    return PlacedField(
        declared.name, position, width, about["signed"], about["kind"], str(about["width"]), about["help"]
    )


def _free_position(placed: Iterable[PlacedField], width: int) -> int:
    """Return the lowest position of an instruction with `width` free bits in one 64-bit word."""
    taken = {bit for field in placed for bit in range(field.start, field.end)} | set(range(OPCODE_BITS))
    starts = (start for start in count() if start // WORD_BITS == (start + width - 1) // WORD_BITS)
    return next(start for start in starts if not taken & set(range(start, start + width)))


def instruction_bits(config: Depths) -> int:
    """Return the width of every instruction of `config`: VTA's, doubled until the fields of each fit."""
    return _doubled(
        VTA_INSTRUCTION_BITS, max(map(_end, (layout(form, config) for form in isa.instructions_of(config))))
    )


def uop_bits(config: Depths) -> int:
    """Return the width of a micro-op of `config`: VTA's, doubled until its fields fit."""
    return _doubled(VTA_UOP_BITS, _end(layout(isa.MicroOp, config)))


def _end(placed: Iterable[PlacedField]) -> int:
    return max(field.end for field in placed)


def _doubled(width: int, needed: int) -> int:
    while width < needed:
        width *= 2
    return width


def field_of(form: isa.Form, name: str, config: Depths) -> PlacedField:
    """Return the field `name` of `form` as `config` encodes it."""
    return next(placed for placed in layout(form, config) if placed.name == name)
