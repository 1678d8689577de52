"""The interfaces between hardware components.

Streams are Amaranth's: a transfer happens in each cycle in which `valid` and `ready` are both high; a
producer that raised `valid` holds it, and the payload, until the transfer.
"""

from amaranth import unsigned
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, Signature
from amaranth.utils import bits_for

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.registers import REGISTER_SPACE_BITS
from vdla.hw.spec.vocabulary import Extension, MemoryType


def instruction_stream(config: AcceleratorConfig) -> stream.Signature:
    """Return the signature of a stream of encoded task instructions."""
    return stream.Signature(unsigned(config.instruction_bits))


def kind_layout() -> data.StructLayout:
    """What dispatch must know of an instruction: its unit (compute if no other), and whether it ends the
    stream, as FINISH or because it is `invalid`; then no other bit matters."""
    return data.StructLayout({"load": 1, "store": 1, "finish": 1, "invalid": 1})


def fetched_layout(config: AcceleratorConfig) -> data.StructLayout:
    """An encoded task instruction, `word`, with its kind."""
    return data.StructLayout({"word": config.instruction_bits, "kind": kind_layout()})


def fetched_stream(config: AcceleratorConfig) -> stream.Signature:
    """Return the signature of a stream of encoded task instructions, each with its kind."""
    return stream.Signature(fetched_layout(config))


def request_layout(config: AcceleratorConfig) -> data.StructLayout:
    """One burst: `address` in bytes, a multiple of the bus width; `beats` from 1 to `burst_beats`."""
    return data.StructLayout(
        {
            "write": 1,
            "address": config.address_bits,
            "beats": bits_for(config.burst_beats),
        }
    )


def write_beat_layout(config: AcceleratorConfig) -> data.StructLayout:
    """One beat to write: a strobe bit per byte; `last` marks the last beat of its burst."""
    return data.StructLayout({"data": config.bus_bits, "strobe": config.bus_bytes, "last": 1})


def request_stream(config: AcceleratorConfig) -> stream.Signature:
    """Return the signature of burst requests to memory, in order."""
    return stream.Signature(request_layout(config))


def read_stream(config: AcceleratorConfig) -> stream.Signature:
    """Return the signature of beats read from memory, in the order of their requests."""
    return stream.Signature(unsigned(config.bus_bits))


def write_stream(config: AcceleratorConfig) -> stream.Signature:
    """Return the signature of beats to write, in the order of their requests."""
    return stream.Signature(write_beat_layout(config))


def memory_port(config: AcceleratorConfig) -> Signature:
    """Return the accelerator's side of memory; `vdla.hw.spec.memory` specifies the reference memory.

    `write_done` pulses once for each write burst that memory has accepted whole, in order. `error` pulses
    when an access failed. The accelerator is always ready for both.
    """
    return Signature(
        {
            "request": Out(request_stream(config)),
            "write_data": Out(write_stream(config)),
            "read_data": In(read_stream(config)),
            "write_done": In(1),
            "error": In(1),
        }
    )


def lanes(config: AcceleratorConfig, memory: MemoryType) -> int:
    """Return the parts of an element that can be written alone: one per memory beat, or one where a beat
    holds more.

    OUT shadows the accumulators, so its elements have as many parts as theirs.
    """
    written = MemoryType.ACC if memory is MemoryType.OUT else memory
    return max(1, config.element_bits(written) // config.bus_bits)


def has_shadow(config: AcceleratorConfig) -> bool:
    """Return whether a copy of the accumulators, their shadow, gives the store unit its own read port."""
    return config.acc_ports > 1


def shadow(config: AcceleratorConfig) -> MemoryType:
    """Return what the store unit reads. Without a shadow that is ACC. A shadow holds whole accumulators if
    the store unit requantises or the ALU has operations, whose second operand comes from it; else only the
    low bits, which are stored."""
    whole = not has_shadow(config) or config.has(Extension.REQUANTISE) or config.alu_opcodes
    return MemoryType.ACC if whole else MemoryType.OUT


def scratchpad_write(config: AcceleratorConfig, memory: MemoryType) -> Signature:
    """Return a write port, which writes the lanes of element `address` whose `enable` bit is set."""
    return Signature(
        {
            "address": Out(config.index_bits(memory)),
            "data": Out(config.element_bits(memory)),
            "enable": Out(lanes(config, memory)),
        }
    )


def scratchpad_read(config: AcceleratorConfig, memory: MemoryType) -> Signature:
    """Return a read port: `data` is the element at the `address` of the previous cycle."""
    return Signature(
        {
            "address": Out(config.index_bits(memory)),
            "data": In(config.element_bits(memory)),
        }
    )


def has_banks(config: AcceleratorConfig) -> bool:
    """Return whether INP is in banks, from which the rows of a window are read at once."""
    return config.has(Extension.DEPTHWISE_ROWS)


def input_read(config: AcceleratorConfig) -> Signature:
    """Return the read port of INP. Where it is in banks, `address` and `data` have an element of each row of
    the window, and `data` are the elements at the `address` of two cycles before."""
    if not has_banks(config):
        return scratchpad_read(config, MemoryType.INP)
    index = data.ArrayLayout(config.index_bits(MemoryType.INP), config.window.rows)
    return Signature({"address": Out(index), "data": In(rows_layout(config))})


def rows_layout(config: AcceleratorConfig) -> data.ArrayLayout:
    """Return the layout of the inputs of a column of the window: an element of each row."""
    return data.ArrayLayout(config.element_bits(MemoryType.INP), config.window.rows)


def lent_read(config: AcceleratorConfig, memory: MemoryType) -> Signature:
    """Return a read port that another unit lends, for the cycles behind those in which `next` is high.

    `data` is the element at the `address` of the previous cycle, if that was such a cycle.
    """
    return Signature({"next": Out(1), **scratchpad_read(config, memory).members})


def lent_write(config: AcceleratorConfig, memory: MemoryType) -> Signature:
    """Return a write port that another unit lends, for the cycles behind those in which `next` is high: in
    these, `enable` has all bits, and none in others."""
    return Signature({"next": Out(1), **scratchpad_write(config, memory).members})


def taken_read(config: AcceleratorConfig) -> Signature:
    """Return the reads for which the store unit takes slots of the compute unit, where there is no shadow.

    `taken`: the slot of this cycle is the store unit's, for the accumulator at `address`. `data` is it,
    `given_stage` + 1 cycles later.
    """
    return Signature({"taken": Out(1), **scratchpad_read(config, MemoryType.ACC).members})


def token_source() -> Signature:
    """Return the popping side of a token edge.

    `available`: there is a token. `pop` takes it, at the end of this cycle; only while `available`.
    """
    return Signature({"available": In(1), "pop": Out(1)})


def token_sink() -> Signature:
    """Return the pushing side of a token edge.

    `room`: the counter can take one more token than was reserved. `reserve` sets that place aside, when an
    instruction starts; only while `room`. `push` fills a reserved place, when the instruction is done.
    """
    return Signature({"room": In(1), "reserve": Out(1), "push": Out(1)})


def unit_status() -> Signature:
    """Return the signals by which a unit informs the counters and the run control.

    `idle`: nothing is in progress. `busy`, `waits_memory`, `waits_prev`, `waits_next`, `waits_room`: the
    state of this cycle, at most one of them high. `overrun` pulses when an address ran past the end of a
    scratchpad.
    """
    return Signature(
        {
            name: Out(1)
            for name in ("idle", "busy", "waits_memory", "waits_prev", "waits_next", "waits_room", "overrun")
        }
    )


def register_port() -> Signature:
    """Access to the registers of `vdla.hw.spec.registers`; `address` is a byte offset.

    A cycle with `write` high writes `write_data`; `read_data` is the register that `address` named in the
    cycle before, and in the cycles before that if its `read_cycles` are more than one.
    """
    return Signature(
        {
            "address": Out(REGISTER_SPACE_BITS),
            "write": Out(1),
            "write_data": Out(32),
            "read_data": In(32),
        }
    )
