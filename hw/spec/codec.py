"""Encoding and decoding of instructions and micro-ops."""

from collections.abc import Iterable, Iterator
from dataclasses import fields
from enum import IntEnum
from typing import TypeVar

from vdla.hw.spec import encoding, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.declared import PlacedField
from vdla.hw.spec.errors import EncodingError
from vdla.hw.spec.meaning import check_form, check_meaning, members, missing
from vdla.hw.spec.showing import shown

Item = TypeVar("Item", isa.Instruction, isa.MicroOp)


def encode(item: isa.Instruction | isa.MicroOp, config: AcceleratorConfig) -> int:
    """Return the encoding of an instruction or micro-op.

    Raises:
        EncodingError: a field's value does not fit; it, or the instruction, belongs to an extension that is
            off.
    """
    form = type(item)
    if isinstance(item, isa.Instruction):
        check_form(type(item), config)
    placed = encoding.layout(form, config)
    word = 0 if issubclass(form, isa.MicroOp) else int(form.opcode)
    for field in placed:
        value = int(getattr(item, field.name))
        if not field.low <= value <= field.high:
            name = f"{_title(form)}.{field.name}"
            raise EncodingError(f"{name} = {shown(value)} is outside {field.low}..{field.high}")
        word |= (value & ((1 << field.width) - 1)) << field.start
    _refuse_absent_fields(item, {field.name for field in placed}, config)
    return word


def _refuse_absent_fields(
    item: isa.Instruction | isa.MicroOp, present: set[str], config: AcceleratorConfig
) -> None:
    for declared in fields(item):
        value = getattr(item, declared.name)
        if not value or declared.name in present:
            continue
        title, extension = (
            f"{_title(type(item))}.{declared.name} = {shown(value)}",
            declared.metadata["extension"],
        )
        if extension is None:
            raise EncodingError(
                f"{title} has no place: its bits belong to the extension "
                f"{declared.metadata['gives_way_to'].value!r}, which is on; leave it at 0"
            )
        raise EncodingError(f"{title} needs {missing(extension, config)}")


def _title(form: isa.Form) -> str:
    return "UOP" if issubclass(form, isa.MicroOp) else form.opcode.name


def decode(word: int, config: AcceleratorConfig) -> isa.Instruction:
    """Return the instruction that `word` encodes. Bits outside all fields are ignored.

    Raises:
        EncodingError: no instruction has this opcode, memory type or ALU operation here.
    """
    code = word & ((1 << encoding.OPCODE_BITS) - 1)
    forms = {form.opcode: form for form in isa.instructions_of(config)}
    if code not in forms:
        raise EncodingError(f"opcode {code} is not an instruction; there are {_named(forms)}")
    instruction = _unpack(forms[isa.Opcode(code)], word, config)
    check_meaning(instruction, config)
    return instruction


def decode_uop(word: int, config: AcceleratorConfig) -> isa.MicroOp:
    """Return the micro-op that `word` encodes."""
    return _unpack(isa.MicroOp, word, config)


def _unpack(form: type[Item], word: int, config: AcceleratorConfig) -> Item:
    return form(**{field.name: _value(form, field, word, config) for field in encoding.layout(form, config)})


def _value(form: isa.Form, field: PlacedField, word: int, config: AcceleratorConfig) -> int:
    value = (word >> field.start) & ((1 << field.width) - 1)
    if field.signed and value > field.high:
        value -= 1 << field.width
    if field.kind is int:
        return value
    known = members(field.kind, config)
    if value not in known:
        raise EncodingError(f"{_title(form)}.{field.name} = {value} is none of {_named(known)}")
    return field.kind(value)


def _named(members: Iterable[IntEnum]) -> str:
    return ", ".join(f"{member.name} ({member.value})" for member in members)


def to_bytes(instructions: Iterable[isa.Instruction], config: AcceleratorConfig) -> bytes:
    """Return a stream as the accelerator fetches it: `instruction_bytes` per instruction, little-endian."""
    size = config.instruction_bytes
    return b"".join(encode(item, config).to_bytes(size, "little") for item in instructions)


def uops_to_bytes(uops: Iterable[isa.MicroOp], config: AcceleratorConfig) -> bytes:
    """Return micro-ops as a LOAD of UOP reads them: `uop_bits` each, little-endian."""
    size = config.uop_bits // 8
    return b"".join(encode(uop, config).to_bytes(size, "little") for uop in uops)


def shown_word(word: int, config: AcceleratorConfig) -> str:
    """Return an encoded instruction as messages show it: all its digits, in hexadecimal."""
    return f"0x{word:0{config.instruction_bits // 4}x}"


def words(stream: bytes, size: int) -> Iterator[int]:
    """Yield the little-endian words of `size` bytes in `stream`.

    Raises:
        EncodingError: the stream is not a whole number of words.
    """
    if len(stream) % size:
        raise EncodingError(f"a stream of {len(stream)} bytes is not a whole number of {size}-byte words")
    for start in range(0, len(stream), size):
        yield int.from_bytes(stream[start : start + size], "little")
