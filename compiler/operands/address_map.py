"""Operands of a program: the tensor in DRAM, and the map from operand elements to tensor elements."""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import NamedTuple

from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import Rows, StreamBuilder
from vdla.runtime.windows import GatheredLines

Move = Callable[[int, str, int, Rows], None]
"""Records a transfer: first element on chip, tensor, first element of the tensor, rows."""


class Transfer(NamedTuple):
    """A LOAD or STORE, or a part of one.

    Attributes:
        chip: first element on chip; of a part, relative to the whole transfer.
        dram: first element in the tensor, or in the operand before it is mapped.
        rows: rows of elements.
    """

    chip: int
    dram: int
    rows: Rows


class AddressMap:
    """The dense map: the elements of an operand are contiguous in its tensor.

    Programs count elements as if every operand were dense. The other maps derive from this class. They split
    each transfer into transfers from the actual positions of the elements.
    """

    __slots__ = ()

    def load(self, memory: MemoryType, builder: StreamBuilder, record: Move) -> Move:
        """Return the recorder of LOADs of an operand into an on-chip memory; `record` records dense LOADs."""
        return record

    def store(self, record: Move) -> Move:
        """Return the recorder of STOREs of an operand; `record` records dense STOREs."""
        return record

    def tensors(self, tensor: str) -> tuple[str, ...]:
        """Return the names of the tensors that hold an operand in `tensor`."""
        return (tensor,)

    def renamed(self, names: Mapping[str, str]) -> "AddressMap":
        """Return the map with its tensors renamed by `names`."""
        return self


DENSE = AddressMap()


@dataclass(frozen=True, slots=True)
class Operand:
    """The position of a program's operand in DRAM.

    Attributes:
        tensor: name of its tensor in the stream.
        begin: first element of the operand that the program's parameter covers.
        address_map: map from elements of the operand to elements of the tensor.
    """

    tensor: str
    begin: int = 0
    address_map: AddressMap = DENSE

    @property
    def tensors(self) -> tuple[str, ...]:
        """The names of the tensors that hold the operand."""
        return self.address_map.tensors(self.tensor)

    def after(self, count: int) -> "Operand":
        """Return the operand without its first `count` elements."""
        return replace(self, begin=self.begin + count)

    def renamed(self, names: Mapping[str, str]) -> "Operand":
        """Return the operand with its tensors renamed by `names`."""
        return replace(self, tensor=names[self.tensor], address_map=self.address_map.renamed(names))

    def load(
        self, builder: StreamBuilder, memory: MemoryType, *, pad_minimum: bool = False, pad_value: int = 0
    ) -> Move:
        """Return the recorder of LOADs of the operand into an on-chip memory.

        Args:
            pad_minimum: padding is the least int8 value.
            pad_value: value of the padding.
        """
        record = partial(builder.load, memory, pad_minimum=pad_minimum, pad_value=pad_value)
        return self.address_map.load(memory, builder, record)


@dataclass(frozen=True, slots=True)
class Packed(AddressMap):
    """A map whose elements are windows of packed lines."""

    lines: GatheredLines

    def load(self, memory: MemoryType, builder: StreamBuilder, record: Move) -> Move:
        """Return the recorder of GATHERs of windows into INP."""
        return partial(builder.gather, self.lines)


@dataclass(frozen=True, slots=True)
class TensorSegment:
    """Contiguous elements of a tensor.

    Attributes:
        tensor: name of the tensor.
        begin: first element.
        count: number of elements.
    """

    tensor: str
    begin: int
    count: int

    def cut(self, first: int, count: int) -> "TensorSegment":
        """Return the part of `count` elements that begins at element `first` of the segment."""
        return TensorSegment(self.tensor, self.begin + first, count)


def cut(segments: Sequence[TensorSegment], first: int, count: int) -> tuple[TensorSegment, ...]:
    """Return the segments of `count` elements of the concatenation, which begin at element `first`. Adjacent
    segments of the same tensor are merged."""
    result: list[TensorSegment] = []
    for segment in segments:
        low, high = max(first, 0), min(first + count, segment.count)
        if low < high:
            part = segment.cut(low, high - low)
            last = result[-1] if result else None
            if last and (last.tensor, last.begin + last.count) == (part.tensor, part.begin):
                result[-1] = replace(last, count=last.count + part.count)
            else:
                result.append(part)
        first -= segment.count
    return tuple(result)


@dataclass(frozen=True, slots=True)
class Joined(AddressMap):
    """A map whose elements are the concatenation of segments of several tensors.

    The name of the operand's tensor is not used. A LOAD of rows within a single segment stays a single LOAD.
    Other LOADs are split where a segment ends.
    """

    segments: tuple[TensorSegment, ...]

    def tensors(self, tensor: str) -> tuple[str, ...]:
        """Return the names of the tensors of the segments."""
        return tuple(segment.tensor for segment in self.segments)

    def renamed(self, names: Mapping[str, str]) -> "Joined":
        """Return the map with its tensors renamed by `names`."""
        return Joined(tuple(replace(each, tensor=names[each.tensor]) for each in self.segments))

    def load(self, memory: MemoryType, builder: StreamBuilder, record: Move) -> Move:
        """Return the recorder of LOADs, split where segments end."""
        segments = self.segments
        ends = tuple(accumulate(segment.count for segment in segments))

        def load(chip: int, tensor: str, element: int, rows: Rows) -> None:
            """Record a LOAD, split where segments end."""
            for part in _within_segments(element, rows, ends):
                number = bisect_right(ends, part.dram) if part.rows.height else 0
                segment = segments[number]
                begin = ends[number] - segment.count if part.rows.height else part.dram
                record(chip + part.chip, segment.tensor, segment.begin + part.dram - begin, part.rows)

        return load


def _within_segments(element: int, rows: Rows, ends: Sequence[int]) -> Iterator[Transfer]:
    """Split a LOAD that begins at `element` into parts within a single segment; segments end at `ends`."""
    height, width, stride = rows.height, rows.width, rows.stride
    last = element + max(height - 1, 0) * stride + width - 1
    if not height or bisect_right(ends, element) == bisect_right(ends, last):
        yield Transfer(0, element, rows)
        return
    pitch, (above, below) = rows.x_pads[0] + width + rows.x_pads[1], rows.y_pads
    if above:
        yield Transfer(0, 0, replace(rows, height=0, y_pads=(above, 0)))
    y = 0
    while y < height:
        first = element + y * stride
        count = whole_rows(rows, height - y, ends[bisect_right(ends, first)] - first)
        chip = (above + y) * pitch
        if count:
            yield Transfer(chip, first, replace(rows, height=count, y_pads=(0, 0)))
        else:
            yield from _pieces(chip, first, rows, ends)
        y += max(count, 1)
    if below:
        yield Transfer((above + height) * pitch, 0, replace(rows, height=0, y_pads=(0, below)))


def whole_rows(rows: Rows, most: int, room: int) -> int:
    """Return how many rows of a transfer, at most `most`, lie in the first `room` contiguous elements."""
    spare = room - rows.width
    return 0 if spare < 0 else min(most, spare // max(rows.stride, 1) + 1)


def _pieces(chip: int, first: int, rows: Rows, ends: Sequence[int]) -> Iterator[Transfer]:
    """Split a single row, padded at both ends, at the ends of segments."""
    before, after = rows.x_pads
    done = 0
    while done < rows.width:
        count = min(rows.width - done, ends[bisect_right(ends, first + done)] - first - done)
        pads = before if not done else 0, after if done + count == rows.width else 0
        yield Transfer(
            chip + (before + done if done else 0), first + done, Rows(1, count, count, (0, 0), pads)
        )
        done += count
