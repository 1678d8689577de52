"""The layout of copies that take no instruction: segments of the tensors of other values.

The result of a Concat, Slice or Split of whole elements is a list of segments, which its readers load. The
sources of a copy that leaves the launch are segments of its result, which their operators store.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from vdla.compiler.network.placed import InnerValue, Offloaded, Stored
from vdla.compiler.operands.address_map import DENSE, AddressMap, Move, Operand, Transfer, whole_rows
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import Rows, StreamBuilder


@dataclass(frozen=True, slots=True)
class TensorSegment:
    """Contiguous elements of an operand in a tensor.

    Attributes:
        tensor: name of the tensor.
        begin: first element.
        count: number of elements.
        address_map: map from elements of the operand to elements of the tensor.
    """

    tensor: str
    begin: int
    count: int
    address_map: AddressMap = DENSE

    def cut(self, first: int, count: int) -> "TensorSegment":
        """Return the part of `count` elements that begins at element `first` of the segment."""
        return replace(self, begin=self.begin + first, count=count)

    def continues(self, other: "TensorSegment") -> bool:
        """Whether the segment begins where `other` ends."""
        return self.cut(0, other.count) == other.cut(other.count, other.count)


def cut(segments: Sequence[TensorSegment], first: int, count: int) -> tuple[TensorSegment, ...]:
    """Return the segments of `count` elements of the concatenation, which begin at element `first`. Adjacent
    segments of the same tensor are merged."""
    result: list[TensorSegment] = []
    for segment in segments:
        low, high = max(first, 0), min(first + count, segment.count)
        if low < high:
            part = segment.cut(low, high - low)
            last = result[-1] if result else None
            if last and part.continues(last):
                result[-1] = replace(last, count=last.count + part.count)
            else:
                result.append(part)
        first -= segment.count
    return tuple(result)


@dataclass(frozen=True, slots=True)
class Joined(AddressMap):
    """A map whose elements are the concatenation of segments of several tensors.

    The name of the operand's tensor is not used. A transfer of rows within a single segment stays a single
    transfer. Other transfers are split where a segment ends. Parts of equal width at equal distances become
    the rows of a single transfer.
    """

    segments: tuple[TensorSegment, ...]

    def tensors(self, tensor: str) -> tuple[str, ...]:
        """Return the names of the tensors of the segments."""
        return tuple(name for each in self.segments for name in each.address_map.tensors(each.tensor))

    def renamed(self, names: Mapping[str, str]) -> "Joined":
        """Return the map with its tensors renamed by `names`."""
        return Joined(
            tuple(
                replace(each, tensor=names[each.tensor], address_map=each.address_map.renamed(names))
                for each in self.segments
            )
        )

    def size(self, dense: int) -> int:
        """Return 0: the bytes belong to the tensors of the segments."""
        return 0

    def load(self, memory: MemoryType, builder: StreamBuilder, record: Move) -> Move:
        """Return the recorder of LOADs, split where segments end."""
        return self._split([each.address_map.load(memory, builder, record) for each in self.segments])

    def store(self, record: Move) -> Move:
        """Return the recorder of STOREs, split where segments end."""
        return self._split([each.address_map.store(record) for each in self.segments])

    def _split(self, records: Sequence[Move]) -> Move:
        """Return the recorder of transfers, split where segments end; each of `records` records the transfers
        of a segment."""
        segments, ends = self.segments, tuple(accumulate(segment.count for segment in self.segments))
        numbers: dict[tuple[str, AddressMap], int] = {}
        first = [numbers.setdefault((each.tensor, each.address_map), n) for n, each in enumerate(segments)]

        def placed(part: Transfer) -> tuple[int, Transfer]:
            """Return the first segment of the same tensor and map as the segment of a part, and the part with
            its position in the tensor. Rows of padding belong to the first segment."""
            number = bisect_right(ends, part.dram) if part.rows.height else 0
            begin = ends[number] - segments[number].count if part.rows.height else part.dram
            return first[number], part._replace(dram=segments[number].begin + part.dram - begin)

        def move(chip: int, tensor: str, element: int, rows: Rows) -> None:
            """Record the transfers from or to the segments."""
            for number, part in _as_rows(map(placed, _within_segments(element, rows, ends))):
                records[number](chip + part.chip, segments[number].tensor, part.dram, part.rows)

        return move


def _as_rows(parts: Iterable[tuple[int, Transfer]]) -> Iterator[tuple[int, Transfer]]:
    """Merge consecutive transfers of single rows without padding, which have the same number and width, are
    contiguous on chip, and are at equal distances in DRAM."""
    last: tuple[int, Transfer] | None = None
    for number, part in parts:
        merged = _with_row(last[1], part) if last is not None and last[0] == number else None
        if last is not None and merged is None:
            yield last
        last = number, merged or part
    if last is not None:
        yield last


def _with_row(rows: Transfer, row: Transfer) -> Transfer | None:
    """Return a transfer with one more row; None if the row does not continue it."""
    height, width, stride = rows.rows.height, rows.rows.width, rows.rows.stride
    step = row.dram - rows.dram - (height - 1) * stride
    plain = rows.rows == Rows(height, width, stride) and row.rows == Rows(1, width, row.rows.stride)
    fits = 0 < height < isa.LONGEST_ROW and width <= step <= isa.LONGEST_ROW
    if not plain or not fits or row.chip != rows.chip + height * width or (height > 1 and step != stride):
        return None
    return rows._replace(rows=Rows(height + 1, width, step))


def _within_segments(element: int, rows: Rows, ends: Sequence[int]) -> Iterator[Transfer]:
    """Split a transfer that begins at `element` into parts within a single segment; segments end at
    `ends`."""
    height, width, stride = rows.height, rows.width, rows.stride
    last = element + max(height - 1, 0) * stride + width - 1
    if not height or bisect_right(ends, element) == bisect_right(ends, last):
        yield Transfer(0, element, rows)
        return
    pitch, (above, below) = rows.x_pads[0] + width + rows.x_pads[1], rows.y_pads
    if above:
        yield Transfer(0, 0, rows._replace(height=0, y_pads=(above, 0)))
    y = 0
    while y < height:
        first = element + y * stride
        count = whole_rows(rows, height - y, ends[bisect_right(ends, first)] - first)
        chip = (above + y) * pitch
        if count:
            yield Transfer(chip, first, rows._replace(height=count, y_pads=(0, 0)))
        else:
            yield from _pieces(chip, first, rows, ends)
        y += max(count, 1)
    if below:
        yield Transfer((above + height) * pitch, 0, rows._replace(height=0, y_pads=(0, below)))


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


def joins(config: AcceleratorConfig) -> bool:
    """Whether all programs of a configuration read the same elements, so that they can read segments."""
    return config.block_in == config.block_out


def operand_of(segments: Sequence[TensorSegment]) -> Operand:
    """Return the operand that consists of segments. A single segment is a part of the operand in its
    tensor."""
    merged = cut(segments, 0, sum(segment.count for segment in segments))
    first = merged[0]
    if len(merged) == 1:
        return Operand(first.tensor, first.begin, first.address_map)
    return Operand(first.tensor, address_map=Joined(merged))


def copied(copy: Offloaded, operand: Callable[[Stored], Operand]) -> Operand:
    """Return the elements that a copy copies, in order.

    Args:
        operand: returns where a value lies.
    """
    segments: list[TensorSegment] = []
    for run in copy.copied:
        source = operand(copy.inputs[run.operand])
        known = source.address_map
        whole = (TensorSegment(source.tensor, source.begin, run.first + run.count, known),)
        segments += cut(known.segments if isinstance(known, Joined) else whole, run.first, run.count)
    return operand_of(segments)


def sources_in(copy: Offloaded, result: Operand) -> dict[Stored, Operand]:
    """Return, for each source of a copy, its segments in the result, in the order of the source's elements.
    Sources that are not copied whole, or more than once, are left out.

    Args:
        result: where the result lies; its elements are contiguous.
    """
    segments: dict[Stored, list[tuple[int, TensorSegment]]] = {}
    begin = result.begin
    for run in copy.copied:
        segment = TensorSegment(result.tensor, begin, run.count)
        segments.setdefault(copy.inputs[run.operand], []).append((run.first, segment))
        begin += run.count
    placed = {}
    for source, parts in segments.items():
        ordered = sorted(parts, key=lambda part: part[0])
        firsts = accumulate((part.count for _, part in ordered), initial=0)
        elements = source.layout.size // (source.layout.batch * source.layout.block)
        if [*(first for first, _ in ordered), elements] == [*firsts]:
            placed[source] = operand_of([part for _, part in ordered])
    return placed


def _joined(value: InnerValue) -> Operand | None:
    """Return the segments that hold the elements of the result of a copy, in order; None for other
    operators."""
    if not joins(value.config) or not value.maker.copied:
        return None
    return copied(value.maker, value.operand)


LAYOUTS = {"joined": _joined}
