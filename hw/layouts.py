"""Amaranth views of the encodings, derived from the specification's tables."""

from amaranth import Shape
from amaranth.hdl import Value
from amaranth.lib import data

from vdla.hw.spec import encoding, isa
from vdla.hw.spec.config import AcceleratorConfig


def encoding_layout(form: isa.Form, config: AcceleratorConfig) -> data.FlexibleLayout:
    """Return the memory layout of an instruction class, or of `MicroOp`."""
    placed = [encoding.OPCODE_FIELD] if form is not isa.MicroOp else []
    placed += encoding.layout(form, config)
    members = {field.name: data.Field(Shape(field.width, field.signed), field.start) for field in placed}
    width = config.uop_bits if form is isa.MicroOp else config.instruction_bits
    return data.FlexibleLayout(width, members)


def decode(form: isa.Form, config: AcceleratorConfig, word: Value) -> data.View:
    """Return a view of `word`, an encoded instruction or micro-op, as `form`."""
    return data.View(encoding_layout(form, config), word)
