"""Slots of the compute pipeline: what each carries along."""

from amaranth.hdl import Cat, Const, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In
from amaranth.utils import ceil_log2

from vdla.hw.signatures import has_banks, has_shadow
from vdla.hw.spec import encoding, isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.timing import alu_slots, source_slots
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.hw.spec.window import window_columns


def turns(config: AcceleratorConfig) -> int:
    """Return the most slots of a step."""
    slots = (alu_slots(config.alu_pieces, opcode, config.alu_stages) for opcode in config.alu_opcodes)
    return max(*slots, most_columns(config) if config.has(Extension.DEPTHWISE) else 1, 1)


def most_columns(config: AcceleratorConfig) -> int:
    """Return the columns of the widest window of a DEPTHWISE."""
    columns: int = window_columns(int(config.has(Extension.DEPTHWISE_ROWS)))
    return columns


def turn_bits(config: AcceleratorConfig) -> int:
    """Return the bits that count the slots of a step; at least 1, since Verilog has no wire of none."""
    return max(1, int(ceil_log2(turns(config))))


def has_source_slots(config: AcceleratorConfig) -> bool:
    """Return whether a slot in front of an ALU step reads its second accumulator."""
    return bool(config.alu_opcodes and source_slots(config.acc_ports, 0))


WINDOW_FIELDS = ("more_rows", "wide", "row_step")
"""The fields of a DEPTHWISE that tell of the extents of its window."""


def width_of_field(name: str, config: AcceleratorConfig) -> int:
    """Return the bits of a field of a DEPTHWISE."""
    return encoding.field_of(isa.Depthwise, name, config).width


def slot_layout(config: AcceleratorConfig) -> data.StructLayout:
    """Return the payload of a slot in the compute pipeline.

    `empty`: no accumulator is updated. `turn` counts the slots of a step. `step`: last slot of a step.
    `source`, which only configurations with such slots have: an empty slot of an ALU step that reads `src`.
    `window`, which only configurations with DEPTHWISE have: the slot belongs to a DEPTHWISE; where INP has
    banks, with the fields that tell of its window. `dst`, `src` and `wgt` are indices with one bit more,
    which stays set once the index has passed the end.
    """
    acc, inp, wgt = (config.index_bits(memory) for memory in (MemoryType.ACC, MemoryType.INP, MemoryType.WGT))
    return data.StructLayout(
        {
            "empty": 1,
            "turn": turn_bits(config),
            "step": 1,
            "alu": 1,
            "reset": 1,
            "overwrite": 1,
            **({"source": 1} if has_source_slots(config) else {}),
            **({"window": 1} if config.has(Extension.DEPTHWISE) else {}),
            **({name: width_of_field(name, config) for name in WINDOW_FIELDS} if has_banks(config) else {}),
            "alu_opcode": 3,
            "use_imm": 1,
            "imm": signed(16),
            "last": 1,
            "finish": 1,
            "push_prev": 1,
            "push_next": 1,
            "dst": acc + 1,
            "src": max(acc, inp) + 1,
            "wgt": wgt + 1,
        }
    )


def advance_port(config: AcceleratorConfig) -> dict[str, wiring.Member]:
    """Return the member `advances` of what counts slots where gaps come between the slots of a step: high in
    cycles with a slot; in others nothing moves. With a shadow there are no such gaps, and no such member."""
    return {} if has_shadow(config) else {"advances": In(1)}


def may_advance(component: wiring.Component) -> Value:
    """Return whether a component with `advance_port` goes on in this cycle."""
    return getattr(component, "advances", Const(1))


def advance(component: wiring.Component, valid: Value) -> list[Value]:
    """Return the assignments that let a component with `advance_port` go on in cycles with a `valid` slot."""
    return [component.advances.eq(valid)] if hasattr(component, "advances") else []


def index_sum(index: Value, offset: Value) -> Value:
    """Return `index` moved by `offset`; its highest bit stays set, or is set when the sum passes the end."""
    bits = len(index) - 1
    total = index[:bits] + offset[:bits]
    return Cat(total[:bits], total[bits] | index[bits])
