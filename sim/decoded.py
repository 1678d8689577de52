"""A whole instruction stream as columns: decoded, judged and assigned to units at NumPy speed.

Everything is derived from `encoding.layout`, `codec.decode` and `units`; no bit position and no rule is
repeated here.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from vdla.hw.spec import codec, encoding, isa, touched
from vdla.hw.spec.assembly import format_instruction
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.declared import PlacedField
from vdla.hw.spec.errors import EncodingError, InvalidInstructionError, ProgramError
from vdla.hw.spec.limits import TABLE_BYTES, require_room
from vdla.hw.spec.meaning import restrictions_of
from vdla.hw.spec.memo import memoised
from vdla.hw.spec.units import TOKEN_EDGES, unit_of
from vdla.sim.records import BoolArray, ByteArray, IntArray

ENUM_BITS = 3
SECOND_BITS = max(isa.HALVINGS_BITS, isa.STATISTIC_BITS)  # of the second field that is restricted
MOVES_BIT = encoding.OPCODE_BITS + ENUM_BITS
INSTRUCTION_TABLE_BYTES = 512
"""What the simulators' and the verifier's tables take at most for an instruction."""


@memoised(1024)
def slots(form: type[isa.Instruction], config: AcceleratorConfig) -> dict[str, int]:
    """Return the column of `DecodedStream.table` in which each field of `form` stands: its place in the
    declaration."""
    return {field.name: slot for slot, field in enumerate(encoding.layout(form, config))}


@memoised(1024)
def slot_count(config: AcceleratorConfig) -> int:
    """Return the columns of `DecodedStream.table`: the fields of the form that has most."""
    return max(len(encoding.layout(form, config)) for form in isa.instructions_of(config))


@dataclass(frozen=True)
class DecodedStream:
    """A decoded stream of n instructions.

    Attributes:
        config: the accelerator whose encoding the stream has.
        words: uint64[n, instruction_bits / 64], the words of each instruction, low bits first.
        opcode: uint8[n].
        table: int64[n, slot_count], the fields of each instruction in the order of its form's layout.
        valid: bool[n], whether the accelerator has this instruction.
        unit: uint8[n], the `Unit` that executes it; meaningless where not valid.
        pops: bool[n, 4], the edges of `TOKEN_EDGES` from which it takes a token.
        pushes: bool[n, 4], the edges onto which it puts a token.
    """

    config: AcceleratorConfig
    words: NDArray[np.uint64]
    opcode: ByteArray
    table: IntArray
    valid: BoolArray
    unit: ByteArray
    pops: BoolArray
    pushes: BoolArray

    def __len__(self) -> int:
        return len(self.opcode)

    @cached_property
    def dispatched(self) -> int:
        """Instructions that can be dispatched: up to the first FINISH, or before the first that is not
        valid."""
        finish = _first(self.opcode == isa.Opcode.FINISH, len(self))
        return min(finish + 1, self.first_invalid)

    @cached_property
    def first_invalid(self) -> int:
        """Index of the first instruction that is not valid; n where all are."""
        return _first(~self.valid, len(self))

    @property
    def finishes(self) -> bool:
        """Whether dispatch meets a FINISH."""
        return self.dispatched > 0 and bool(self.opcode[self.dispatched - 1] == isa.Opcode.FINISH)

    def part(self, chosen: slice | IntArray) -> "DecodedStream":
        """Return the instructions of `chosen`: of a slice as views of this stream's arrays, of positions as
        copies."""
        return DecodedStream(
            self.config,
            self.words[chosen],
            self.opcode[chosen],
            self.table[chosen],
            self.valid[chosen],
            self.unit[chosen],
            self.pops[chosen],
            self.pushes[chosen],
        )

    def word(self, index: int) -> int:
        """Return the encoding of the instruction at `index`."""
        return sum(int(word) << encoding.WORD_BITS * place for place, word in enumerate(self.words[index]))

    def instruction(self, index: int) -> isa.Instruction:
        """Return the decoded instruction at `index`.

        Raises:
            EncodingError: it is none.
        """
        return codec.decode(self.word(index), self.config)

    def describe(self, index: int) -> str:
        """Return `instruction <index> (<text>)`, as messages name an instruction."""
        return f"instruction {index} ({format_instruction(self.instruction(index))})"

    def column(self, form: type[isa.Instruction], name: str) -> IntArray:
        """Return int64[...]: field `name` of every instruction with the opcode of `form`, in program
        order."""
        values: IntArray = self.table[self.opcode == form.opcode, slots(form, self.config)[name]]
        return values

    def fields(self, form: type[isa.Instruction]) -> Callable[[str], IntArray]:
        """Return the fields of every instruction of `form` as columns; 0 where the configuration has no such
        field."""
        table, place = self.table[self.opcode == form.opcode], slots(form, self.config)
        return lambda name: table[:, place[name]] if name in place else np.zeros(len(table), np.int64)

    def steps(self, form: type[isa.Instruction]) -> IntArray:
        """Return int64[...], the micro-op steps of every instruction of `form`, in program order."""
        counted: IntArray = np.maximum(touched.steps(form, self.fields(form)), 0)
        return counted

    def refusal(self, index: int) -> InvalidInstructionError:
        """Return the error that says why the instruction at `index` is none."""
        try:
            codec.decode(self.word(index), self.config)
        except EncodingError as error:
            text = (
                f"instruction {index} ({codec.shown_word(self.word(index), self.config)}) is invalid: {error}"
            )
            return InvalidInstructionError(text, index)
        raise AssertionError(f"instruction {index} is valid")


BLOCK = 1 << 14  # instructions decoded at a time: what is worked on stays in the processor's cache


def blocks(count: int) -> Iterator[slice]:
    """Yield the slices of at most BLOCK that cover `count` instructions."""
    return (slice(begin, min(begin + BLOCK, count)) for begin in range(0, count, BLOCK))


def decode_stream(stream: ByteArray, config: AcceleratorConfig) -> DecodedStream:
    """Decode a stream.

    Args:
        stream: uint8[n, instruction_bytes], instructions in program order, little-endian.
        config: the accelerator.

    Raises:
        ProgramError: its tables would take more than `TABLE_BYTES`.
    """
    count = stream.size // config.instruction_bytes
    subject = f"decoding and verifying a stream of {count} instructions takes"
    require_room(count * INSTRUCTION_TABLE_BYTES, TABLE_BYTES, subject, ProgramError)
    words = np.array(stream, np.uint8, order="C").reshape(-1, config.instruction_bytes).view("<u8")
    n, edges = len(words), len(TOKEN_EDGES)
    program = DecodedStream(
        config,
        words,
        np.zeros(n, np.uint8),
        np.zeros((n, slot_count(config)), np.int64),
        np.zeros(n, bool),
        np.zeros(n, np.uint8),
        np.zeros((n, edges), bool),
        np.zeros((n, edges), bool),
    )
    for block in blocks(n):
        _decode(program.part(block))
    return program


def _decode(program: DecodedStream) -> None:
    """Fill in everything but the words."""
    config, words, table = program.config, program.words, program.table
    program.opcode[:] = words[:, 0] & np.uint64((1 << encoding.OPCODE_BITS) - 1)
    key = program.opcode.astype(np.int64)
    for form in isa.instructions_of(config):
        rows = np.flatnonzero(program.opcode == form.opcode)
        if not rows.size:
            continue
        encoded = words[rows]
        for slot, field in enumerate(encoding.layout(form, config)):
            table[rows, slot] = _extract(encoded, field)
        key[rows] = _meaning_key(form, table[rows], config)
    meaning = _meanings(config)
    program.valid[:], program.unit[:] = meaning.valid[key], meaning.unit[key]
    flags = table[:, : len(isa.FLAGS)] != 0
    program.pops[:] = _edges(flags, program.unit, "pop_flag", "consumer")
    program.pushes[:] = _edges(flags, program.unit, "push_flag", "producer")


def _first(mask: BoolArray, otherwise: int) -> int:
    return int(mask.argmax()) if mask.any() else otherwise


def _extract(words: NDArray[np.uint64], field: PlacedField) -> IntArray:
    """Return int64[n]: the value of `field` in words uint64[n, ...]. A field lies in one word, by the
    layout."""
    word, start = divmod(field.start, encoding.WORD_BITS)
    value = (words[:, word] >> np.uint64(start) & np.uint64((1 << field.width) - 1)).astype(np.int64)
    return np.where(value > field.high, value - (1 << field.width), value) if field.signed else value


def _edges(flags: BoolArray, unit: ByteArray, flag: str, end: str) -> BoolArray:
    """Return bool[n, 4]: per edge, whether the instruction runs in the edge's `end` and has its `flag`."""
    columns = [
        flags[:, isa.FLAGS.index(getattr(edge, flag))] & (unit == getattr(edge, end)) for edge in TOKEN_EDGES
    ]
    return np.stack(columns, axis=1)


# What an instruction means (whether it exists, and which unit runs it) depends on its opcode, its first
# enumerated field, its second field that is restricted and, for STORE and NORMALISE, on whether it moves
# anything. All combinations are asked of the codec once.


@dataclass(frozen=True, slots=True)
class _Meanings:
    valid: BoolArray
    unit: ByteArray


def _enum_field(form: type[isa.Instruction], config: AcceleratorConfig) -> PlacedField | None:
    return next((field for field in encoding.layout(form, config) if field.kind is not int), None)


def _second_field(form: type[isa.Instruction], config: AcceleratorConfig) -> PlacedField | None:
    """Return the field that is restricted beside the first enumerated field; no form has several."""
    first, names = _enum_field(form, config), {rule.field for rule in restrictions_of(form, config)}
    others = (field for field in encoding.layout(form, config) if field.name in names and field != first)
    return next(others, None)


def _meaning_key(form: type[isa.Instruction], table: IntArray, config: AcceleratorConfig) -> IntArray:
    key, place = np.full(len(table), int(form.opcode), np.int64), slots(form, config)
    if field := _enum_field(form, config):
        key |= table[:, place[field.name]] << encoding.OPCODE_BITS
    if "x_size" in place:
        key |= (table[:, place["x_size"]] != 0).astype(np.int64) << MOVES_BIT
    if field := _second_field(form, config):
        key |= table[:, place[field.name]] << MOVES_BIT + 1
    return key


@memoised(1024)
def _meanings(config: AcceleratorConfig) -> _Meanings:
    count = 1 << MOVES_BIT + 1 + SECOND_BITS
    meanings = _Meanings(np.zeros(count, bool), np.zeros(count, np.uint8))
    forms, values = isa.instructions_of(config), range(1 << ENUM_BITS)
    for form, value, moves, second in product(forms, values, (0, 1), range(1 << SECOND_BITS)):
        key = form.opcode | value << encoding.OPCODE_BITS | moves << MOVES_BIT | second << MOVES_BIT + 1
        word = int(form.opcode)
        if field := _enum_field(form, config):
            word |= value << field.start
        if moves and "x_size" in slots(form, config):
            word |= 1 << encoding.field_of(form, "x_size", config).start
        if field := _second_field(form, config):
            word |= second << field.start
        elif second:
            continue
        try:
            instruction = codec.decode(word, config)
        except EncodingError:
            continue
        meanings.valid[key], meanings.unit[key] = True, unit_of(instruction)
    return meanings
