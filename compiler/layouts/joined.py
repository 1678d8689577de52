"""The layout of copies that take no instruction: segments of the tensors of other values.

The result of a Concat, Slice or Split of whole blocks of channels is a list of segments, which its readers
load.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from vdla.compiler.network.placed import InnerValue, Offloaded
from vdla.compiler.operands.address_map import DENSE, AddressMap, Move, Operand, Transfer, whole_rows
from vdla.compiler.tasks.elementwise import Elements, ElementsTask
from vdla.hw.spec.config import AcceleratorConfig
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

    def size(self, dense: int) -> int:
        """Return 0: the bytes belong to the tensors of the segments."""
        return 0

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


def is_copy(operator: Offloaded) -> bool:
    """Whether an operator only copies elements."""
    return all(
        isinstance(piece.task, ElementsTask) and piece.task.kind is Elements.COPY for piece in operator.pieces
    )


def joins(config: AcceleratorConfig) -> bool:
    """Whether all programs of a configuration read the same elements, so that they can read segments."""
    return config.block_in == config.block_out


def _joined(value: InnerValue) -> Operand | None:
    """Return the segments that hold the elements of the result of a copy, in order; None for other operators,
    and for a copy of elements that are not contiguous."""
    copy = value.maker
    if not joins(value.config) or not is_copy(copy):
        return None
    maps = [value.operand(source).address_map for source in copy.inputs.values()]
    if not all(each == DENSE or isinstance(each, Joined) for each in maps):
        return None
    segments: list[TensorSegment] = []
    for piece in copy.pieces:
        assert isinstance(piece.task, ElementsTask), f"{copy} copies"
        name, first = piece.operands.get("A", ("A", 0))
        source, count = value.operand(copy.inputs[name]), piece.task.elements
        known = source.address_map
        whole = (TensorSegment(source.tensor, source.begin, first + count),)
        segments += cut(known.segments if isinstance(known, Joined) else whole, first, count)
    joined = Joined(cut(segments, 0, sum(segment.count for segment in segments)))
    return Operand(joined.segments[0].tensor, address_map=joined)


LAYOUTS = {"joined": _joined}
