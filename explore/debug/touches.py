"""What the instructions of a run touch: elements of scratchpads and bytes of DRAM, as rows.

A touch is some rows of one memory: row y is the places from `begin + y * stride` on, `width` of them. Places
are elements of a scratchpad, or bytes of DRAM. The rows are exact: they follow from the micro-ops that stand
in the micro-op memory when the instruction runs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from vdla.explore.debug.dram import Image
from vdla.hw.spec.footprint import MOST_ACCESSES
from vdla.hw.spec.memo import memoised
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.decoded import DecodedStream
from vdla.sim.records import BoolArray, ByteArray, IntArray, RecordArray
from vdla.sim.verify.columns import DRAM, LOAD_FROM_DRAM, LOAD_ON_CHIP, footprint_columns

UOP = int(MemoryType.UOP)
FIELDS = ("instruction", "memory", "reads", "writes", "begin", "width", "stride", "count")


class Rows(NamedTuple):
    """Row y is the places from `begin + y * stride` on, `width` of them, for y < `height`."""

    begin: int
    width: int
    stride: int
    height: int


@dataclass(frozen=True, eq=False)
class Touches:
    """The touches of a run, in the order of the stream; of an instruction, reads come first.

    Attributes:
        instruction: int64[m], ascending.
        memory: int64[m], the scratchpad as a MemoryType, or DRAM.
        reads, writes: bool[m].
        begin, width, stride, count: int64[m], the rows; `width` and `count` are at least 1.
    """

    instruction: IntArray
    memory: IntArray
    reads: BoolArray
    writes: BoolArray
    begin: IntArray
    width: IntArray
    stride: IntArray
    count: IntArray

    def __len__(self) -> int:
        return len(self.instruction)

    @property
    def end(self) -> IntArray:
        """int64[m]: one past the last place of the last row."""
        return self.begin + (self.count - 1) * self.stride + self.width

    def chosen(self, which: IntArray | BoolArray | slice) -> "Touches":
        """Return the touches that positions, a mask or a slice select."""
        return Touches(*(getattr(self, name)[which] for name in FIELDS))

    def of(self, instruction: int) -> "Touches":
        """Return the touches of an instruction."""
        first, end = np.searchsorted(self.instruction, [instruction, instruction + 1])
        return self.chosen(slice(int(first), int(end)))

    def at(self, memory: int, place: int) -> "Touches":
        """Return the touches of one place of a memory."""
        return self.chosen((self.memory == memory) & self.holds(place))

    def holds(self, place: int) -> BoolArray:
        """Return bool[m]: whether each touch has a row with a place."""
        offset = place - self.begin
        row = np.clip(offset // np.maximum(self.stride, 1), 0, self.count - 1)
        held: BoolArray = (offset >= 0) & (offset - row * self.stride < self.width)
        return held

    def places(self, number: int) -> IntArray:
        """Return int64[...]: the places of a touch, row by row."""
        rows = int(self.begin[number]) + int(self.stride[number]) * np.arange(int(self.count[number]))
        places: IntArray = (rows[:, None] + np.arange(int(self.width[number]))).reshape(-1)
        return places


def touches_of(program: DecodedStream, image: Image) -> Touches:
    """Return what the instructions touch that a run reaches.

    Args:
        image: DRAM, whence micro-ops come.
    """
    reached = program.part(slice(program.dispatched))
    items, walks = footprint_columns(reached)
    groups = [_walked(walks, np.repeat(items["fits"], MOST_ACCESSES)), *_micro_op_reads(items)]
    groups += [_operands(reached, items, walks.reshape(-1, MOST_ACCESSES), image.before)]
    columns = [np.concatenate(parts) for parts in zip(*groups, strict=True)]
    order = np.lexsort((columns[3], columns[0]))
    return Touches(*(column[order] for column in columns))


Columns = tuple[np.ndarray, ...]


def _walked(walks: RecordArray, fits: BoolArray) -> Columns:
    """Return the touches that do not depend on micro-ops, in the order of FIELDS.

    Args:
        fits: bool[...], by walk: its instruction stays inside the scratchpads; others touch nothing.
    """
    places = np.flatnonzero(walks["happens"] & (walks["uop_width"] == 0) & fits)
    fixed = walks[places]
    width = np.where(fixed["step_in"] > 0, fixed["trips_in"] * fixed["step_in"], 1)
    dense = (fixed["trips_out"] == 1) | (fixed["step_out"] == width)
    width, count = np.where(dense, width * fixed["trips_out"], width), np.where(dense, 1, fixed["trips_out"])
    stride, reads = np.where(dense, 0, fixed["step_out"]), fixed["needs"] | ~fixed["writes"]
    memory = fixed["memory"].astype(np.int64)
    return places // MOST_ACCESSES, memory, reads, fixed["writes"], fixed["base"], width, stride, count


def _micro_op_reads(items: RecordArray) -> Iterator[Columns]:
    """Yield the reads of the micro-op memory."""
    width = items["uop_end"] - items["uop_begin"]
    instructions = np.flatnonzero(
        items["steps"] & (width > 0) & (items["iter_out"] > 0) & (items["iter_in"] > 0)
    )
    same = np.ones(len(instructions), np.int64)
    begin, width = items["uop_begin"][instructions], width[instructions]
    yield instructions, same * UOP, same > 0, same < 0, begin, width, same * 0, same


def _operands(program: DecodedStream, items: RecordArray, walks: RecordArray, dram: ByteArray) -> Columns:
    """Return the touches of operands that micro-ops name."""
    memory = np.zeros(program.config.depth(MemoryType.UOP), np.int64)
    depths = [program.config.depth(each) for each in MemoryType]
    words, touches = _micro_op_words(program, dram), []
    for index in np.flatnonzero(items["fills"] | items["steps"]).tolist():
        if items["fills"][index]:
            _fill(memory, words, walks[index], program.config.uop_bits // 8)
            continue
        uops = memory[items["uop_begin"][index] : items["uop_end"][index]]
        for walk in walks[index]:
            if walk["happens"] and len(uops):
                flags = bool(walk["needs"] or not walk["writes"]), bool(walk["writes"])
                rows = operand_rows(walk, uops, depths[walk["memory"]])
                touches += [(index, int(walk["memory"]), *flags, *row) for row in rows]
    columns = np.array(touches, np.int64).reshape(-1, len(FIELDS)).T
    return tuple(column.astype(bool) if 2 <= place < 4 else column for place, column in enumerate(columns))


def _micro_op_words(program: DecodedStream, dram: ByteArray) -> np.ndarray:
    size = program.config.uop_bits // 8
    return dram[: len(dram) // size * size].view(f"<u{size}")


def _fill(memory: IntArray, words: np.ndarray, walks: RecordArray, size: int) -> None:
    """Do to the model of the micro-op memory what a LOAD does; what stands behind `words` is 0."""
    chip, dram = walks[LOAD_ON_CHIP], walks[LOAD_FROM_DRAM]
    if not chip["happens"]:
        return
    block = np.zeros((chip["trips_out"], chip["trips_in"]), np.int64)
    for row in range(dram["trips_out"] if dram["happens"] else 0):
        first = (int(dram["base"]) + row * int(dram["step_out"])) // size
        loaded = words[first : first + int(dram["trips_in"])]
        left = int(chip["before_in"])
        block[int(chip["before_out"]) + row, left : left + len(loaded)] = loaded
    base = int(chip["base"])
    written = block.reshape(-1)[: max(0, len(memory) - base)]
    memory[base : base + len(written)] = written


def operand_rows(walk: np.void, uops: IntArray, depth: int) -> Iterator[Rows]:
    """Yield the rows of an operand that micro-ops name, inside its memory.

    Args:
        walk: WALK, of the operand.
        uops: int64[n], encoded micro-ops.
        depth: elements of its memory.
    """
    named = uops >> int(walk["uop_start"]) & ((1 << int(walk["uop_width"])) - 1)
    bases = np.unique(named) + int(walk["base"])
    loops = tuple(
        (int(walk[f"step_{side}"]), min(int(walk[f"trips_{side}"]), depth) if walk[f"step_{side}"] else 1)
        for side in ("in", "out")
    )
    first = int(bases[0])
    for rows in _spread((bases - first).tobytes(), loops, depth - first):
        yield rows._replace(begin=rows.begin + first)


@memoised(1 << 14)
def _spread(bases: bytes, loops: tuple[tuple[int, int], ...], limit: int) -> tuple[Rows, ...]:
    """Return the rows of the elements that loops reach from some bases, below a limit."""
    places = np.frombuffer(bases, np.int64)
    for step, trips in loops:
        places = np.unique(places[:, None] + step * np.arange(trips))
        places = places[places < limit]
    return rows_of(places)


def rows_of(places: IntArray) -> tuple[Rows, ...]:
    """Return the fewest rows, from the first on, that hold some places and no others.

    Args:
        places: int64[n], ascending and different.
    """
    gaps = np.flatnonzero(np.diff(places) > 1)
    begins, ends = places[np.append(0, gaps + 1)][: len(places)], places[np.append(gaps, -1)][: len(places)]
    rows: list[Rows] = []
    for begin, width in zip(begins.tolist(), (ends - begins + 1).tolist(), strict=True):
        if rows and _continues(rows[-1], begin, width):
            last = rows[-1]
            stride = begin - last.begin if last.height == 1 else last.stride
            rows[-1] = Rows(last.begin, width, stride, last.height + 1)
        else:
            rows.append(Rows(begin, width, 0, 1))
    return tuple(rows)


def _continues(rows: Rows, begin: int, width: int) -> bool:
    """Whether an interval is the next row of some rows."""
    return rows.width == width and (rows.height == 1 or begin == rows.begin + rows.height * rows.stride)


def memory_name(memory: int) -> str:
    """Return the name of a memory: of a scratchpad, or DRAM."""
    return "DRAM" if memory == DRAM else MemoryType(memory).name
