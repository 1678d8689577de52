"""The address map of a joined operand: the concatenation of segments of several tensors.

A LOAD of rows within a single segment stays a single LOAD. Other LOADs are split where a segment ends.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from vdla.compiler.operands.address_map import AddressMap, Move, TransferPart
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import Rows, StreamBuilder


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
    """The concatenation of segments of several tensors. The name of the operand's tensor is not used."""

    segments: tuple[TensorSegment, ...]

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


def _within_segments(element: int, rows: Rows, ends: Sequence[int]) -> Iterator[TransferPart]:
    """Split a LOAD that begins at `element` into parts within a single segment; segments end at `ends`."""
    height, width, stride = rows.height, rows.width, rows.stride
    last = element + max(height - 1, 0) * stride + width - 1
    if not height or bisect_right(ends, element) == bisect_right(ends, last):
        yield TransferPart(0, element, rows)
        return
    pitch, (above, below) = rows.x_pads[0] + width + rows.x_pads[1], rows.y_pads
    if above:
        yield TransferPart(0, 0, replace(rows, height=0, y_pads=(above, 0)))
    y = 0
    while y < height:
        first = element + y * stride
        count = _whole_rows(first, rows, height - y, ends)
        chip = (above + y) * pitch
        if count:
            yield TransferPart(chip, first, replace(rows, height=count, y_pads=(0, 0)))
        else:
            yield from _pieces(chip, first, rows, ends)
        y += max(count, 1)
    if below:
        yield TransferPart((above + height) * pitch, 0, replace(rows, height=0, y_pads=(0, below)))


def _whole_rows(first: int, rows: Rows, most: int, ends: Sequence[int]) -> int:
    """Return the number of whole rows, at most `most`, from element `first` to the end of its segment."""
    room = ends[bisect_right(ends, first)] - first - rows.width
    return 0 if room < 0 else min(most, room // max(rows.stride, 1) + 1)


def _pieces(chip: int, first: int, rows: Rows, ends: Sequence[int]) -> Iterator[TransferPart]:
    """Split a single row, padded at both ends, at the ends of segments."""
    before, after = rows.x_pads
    done = 0
    while done < rows.width:
        count = min(rows.width - done, ends[bisect_right(ends, first + done)] - first - done)
        pads = before if not done else 0, after if done + count == rows.width else 0
        yield TransferPart(
            chip + (before + done if done else 0), first + done, Rows(1, count, count, (0, 0), pads)
        )
        done += count
