"""The address map of a joined operand: its elements are segments of several tensors, one after another.

A LOAD whose rows lie in one segment stays one LOAD. Other LOADs are divided where a segment ends.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from vdla.compiler.operands.address_map import AddressMap, Move
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import Rows, StreamBuilder


@dataclass(frozen=True, slots=True)
class Segment:
    """Elements of a tensor that follow each other.

    Attributes:
        tensor: that holds them.
        begin: the first.
        count: how many.
    """

    tensor: str
    begin: int
    count: int

    def cut(self, first: int, count: int) -> "Segment":
        """Return `count` elements from the segment's `first` on."""
        return Segment(self.tensor, self.begin + first, count)


def cut(segments: Sequence[Segment], first: int, count: int) -> tuple[Segment, ...]:
    """Return the segments of `count` elements from `first` on; neighbours in one tensor become one."""
    found: list[Segment] = []
    for segment in segments:
        low, high = max(first, 0), min(first + count, segment.count)
        if low < high:
            part = segment.cut(low, high - low)
            last = found[-1] if found else None
            if last and (last.tensor, last.begin + last.count) == (part.tensor, part.begin):
                found[-1] = replace(last, count=last.count + part.count)
            else:
                found.append(part)
        first -= segment.count
    return tuple(found)


class _Part(NamedTuple):
    """Rows of a LOAD, or a piece of one: elements behind the LOAD's first on chip, and in the tensor."""

    chip: int
    dram: int
    rows: Rows


@dataclass(frozen=True, slots=True)
class Joined(AddressMap):
    """Elements that are segments of several tensors. The name of the operand's tensor is not used."""

    segments: tuple[Segment, ...]

    def load(self, memory: MemoryType, builder: StreamBuilder, record: Move) -> Move:
        """Return what records LOADs, divided where segments end."""
        segments = self.segments
        ends = tuple(accumulate(segment.count for segment in segments))

        def load(chip: int, tensor: str, element: int, rows: Rows) -> None:
            """Record a LOAD, divided where segments end."""
            for part in _parts(element, rows, ends):
                number = bisect_right(ends, part.dram) if part.rows.height else 0
                segment = segments[number]
                begin = ends[number] - segment.count if part.rows.height else part.dram
                record(chip + part.chip, segment.tensor, segment.begin + part.dram - begin, part.rows)

        return load


def _parts(element: int, rows: Rows, ends: Sequence[int]) -> Iterator[_Part]:
    """Divide a LOAD from `element` on into such as one segment holds, which end at `ends`."""
    height, width, stride = rows.height, rows.width, rows.stride
    last = element + max(height - 1, 0) * stride + width - 1
    if not height or bisect_right(ends, element) == bisect_right(ends, last):
        yield _Part(0, element, rows)
        return
    pitch, (above, below) = rows.x_pads[0] + width + rows.x_pads[1], rows.y_pads
    if above:
        yield _Part(0, 0, replace(rows, height=0, y_pads=(above, 0)))
    y = 0
    while y < height:
        first = element + y * stride
        count = _whole_rows(first, rows, height - y, ends)
        chip = (above + y) * pitch
        if count:
            yield _Part(chip, first, replace(rows, height=count, y_pads=(0, 0)))
        else:
            yield from _pieces(chip, first, rows, ends)
        y += max(count, 1)
    if below:
        yield _Part((above + height) * pitch, 0, replace(rows, height=0, y_pads=(0, below)))


def _whole_rows(first: int, rows: Rows, most: int, ends: Sequence[int]) -> int:
    """Return how many rows, at most, the segment of the element `first` holds from there on; 0 where not even
    one."""
    room = ends[bisect_right(ends, first)] - first - rows.width
    return 0 if room < 0 else min(most, room // max(rows.stride, 1) + 1)


def _pieces(chip: int, first: int, rows: Rows, ends: Sequence[int]) -> Iterator[_Part]:
    """Divide one row, padded at both ends, at the ends of segments."""
    before, behind = rows.x_pads
    done = 0
    while done < rows.width:
        count = min(rows.width - done, ends[bisect_right(ends, first + done)] - first - done)
        pads = before if not done else 0, behind if done + count == rows.width else 0
        yield _Part(chip + (before + done if done else 0), first + done, Rows(1, count, count, (0, 0), pads))
        done += count
