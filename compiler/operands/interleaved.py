"""The address map of interleaved channel blocks, for configurations whose block_in and block_out differ.

An activation in DRAM has blocks of the larger of both. A program that reads or writes blocks of the smaller
one has several blocks in each: with two, the elements of a plane and of the next plane alternate, pixel by
pixel. Its transfers step over the elements of the other planes: by rows of one element each, or by a GATHER.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from vdla.compiler.operands.address_map import AddressMap, Move
from vdla.compiler.te.operators.sizes import blocks
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.runtime.stream.builder import Rows, StreamBuilder

MOST_GATHERED_BEATS = 4  # from element to element; a LOAD of one element alone takes as long


def activation_block(config: AcceleratorConfig) -> int:
    """Return the channels that stand together in DRAM; with several rows to an element those of a result, for
    parts of such elements are not elements themselves."""
    return config.block_out if config.batch > 1 else max(config.block_in, config.block_out)


@dataclass(frozen=True, slots=True)
class Interleaved(AddressMap):
    """Elements of images whose channel blocks are interleaved.

    Attributes:
        parts: number of channel blocks that are interleaved.
        pixels: number of pixels of a plane.
        blocks: number of channel blocks of an image, without those that pad the last `parts`.
    """

    parts: int
    pixels: int
    blocks: int

    def place(self, element: int) -> int:
        """Return the place of an element, given the one it has where plane follows plane."""
        plane, pixel = divmod(element, self.pixels)
        image, block = divmod(plane, self.blocks)
        outer, inner = divmod(block, self.parts)
        outer += image * blocks(self.blocks, self.parts)
        return (outer * self.pixels + pixel) * self.parts + inner

    def runs(self, element: int, count: int) -> Iterator[tuple[int, int, int]]:
        """Yield the parts of a row that lie in one plane: elements before, the first one's place, and how
        many."""
        done = 0
        while done < count:
            taken = min(count - done, self.pixels - (element + done) % self.pixels)
            yield done, self.place(element + done), taken
            done += taken

    def load(self, memory: MemoryType, builder: StreamBuilder, record: Move) -> Move:
        """Return what records LOADs of single elements, or GATHERs into INP where these are not slower."""
        if memory is MemoryType.INP and gathers(self.parts, builder.config):
            return _gathering(builder, record, self)
        return self.store(record)

    def store(self, record: Move) -> Move:
        """Return what records transfers of single elements."""

        def move(chip: int, tensor: str, element: int, rows: Rows) -> None:
            """Record a transfer, one element to a row."""
            for part in _single(element, rows, self):
                record(chip + part.chip, tensor, part.place, part.rows)

        return move


class _Part(NamedTuple):
    """A part of a transfer: elements before it on chip, its place in the tensor, and its rows."""

    chip: int
    place: int
    rows: Rows


def gathers(parts: int, config: AcceleratorConfig) -> bool:
    """Whether inputs of which so many blocks alternate are loaded by GATHERs: they are there, and no slower
    than LOADs of one element to a row."""
    step = parts * config.element_bytes(MemoryType.INP)
    quick = step <= isa.MOST_GATHER_STEP and step * 8 <= MOST_GATHERED_BEATS * config.bus_bits
    return quick and config.has(Extension.GATHER)


def _gathering(builder: StreamBuilder, record: Move, how: Interleaved) -> Move:
    """Return what records the LOADs of INP from a tensor whose planes alternate, by GATHERs; `record` is for
    padding."""
    element_bytes = builder.config.element_bytes(MemoryType.INP)
    step = how.parts * element_bytes

    def move(chip: int, tensor: str, element: int, rows: Rows) -> None:
        """Record a LOAD as GATHERs."""
        for part in _lines(element, rows, how, isa.LONGEST_ROW // step):
            size = part.rows
            if size.height:
                size = replace(size, stride=size.stride * element_bytes)
                builder.gather_elements(step, chip + part.chip, tensor, part.place * element_bytes, size)
            else:
                record(chip + part.chip, tensor, 0, size)

    return move


def _single(element: int, rows: Rows, how: Interleaved) -> Iterator[_Part]:
    """Divide rows from `element` on into such as have one element each."""
    (above, below), (left, right), pitch = rows.y_pads, rows.x_pads, _pitch(rows)
    yield from _blank(0, pitch, above)
    height, width = _lined(rows)
    for number in range(height):
        begin = (above + number) * pitch
        for done, place, count in how.runs(element + number * rows.stride, width):
            ends = 0 if done else left, right if done + count == width else 0
            yield from _column(begin + (left + done if done else 0), place, Rows(count, 1, how.parts, ends))
    yield from _blank((above + rows.height) * pitch, pitch, below)


def _column(chip: int, place: int, rows: Rows) -> Iterator[_Part]:
    """Divide rows of one element into such as an instruction's fields hold."""
    (before, behind), done = rows.y_pads, 0
    while done < rows.height:
        count = min(rows.height - done, isa.LONGEST_ROW)
        pads = 0 if done else before, behind if done + count == rows.height else 0
        at = chip + (before + done if done else 0)
        yield _Part(at, place + done * rows.stride, replace(rows, height=count, y_pads=pads))
        done += count


def _lines(element: int, rows: Rows, how: Interleaved, longest: int) -> Iterator[_Part]:
    """Divide rows from `element` on into GATHERs, whose strides count elements, and blank rows.

    Rows of one plane that have no padding at their ends stay together.
    """
    (above, below), (left, right), pitch = rows.y_pads, rows.x_pads, _pitch(rows)
    yield from _blank(0, pitch, above)
    height, width = _lined(rows)
    number = 0
    while number < height:
        first, chip = element + number * rows.stride, (above + number) * pitch
        together = 0 if left or right else _together(first, replace(rows, width=width), height - number, how)
        if together * max(rows.stride, width) and max(rows.stride, width) <= longest:
            size = Rows(together, width, rows.stride * how.parts if together > 1 else 0)
            yield _Part(chip, how.place(first), size)
        else:
            together = 1
            yield from _blank(chip, 0 if number else left, 1)
            for done, place, count in how.runs(first, width):
                for begin in range(0, count, longest):
                    size = Rows(1, min(longest, count - begin), 0)
                    yield _Part(chip + left + done + begin, place + begin * how.parts, size)
            ends = right + left if number + 1 < height else right
            yield from _blank(chip + left + width, ends, 1)
        number += together
    yield from _blank((above + rows.height) * pitch, pitch, below)


def _together(first: int, rows: Rows, most: int, how: Interleaved) -> int:
    """Return how many rows, at most, lie in the plane of the element `first`; 0 where not even one does."""
    room = how.pixels - first % how.pixels - rows.width
    return 0 if room < 0 else min(most, room // max(rows.stride, 1) + 1)


def _lined(rows: Rows) -> tuple[int, int]:
    """Return height and width of rows, of which such as follow each other without a gap are one."""
    dense = rows.height > 1 and not any(rows.x_pads) and rows.stride == rows.width
    return (1, rows.height * rows.width) if dense else (rows.height, rows.width)


def _pitch(rows: Rows) -> int:
    """Return the elements of a row on chip."""
    return sum(rows.x_pads) + rows.width


def _blank(chip: int, width: int, rows: int) -> Iterator[_Part]:
    """Yield rows of nothing but padding, where there are any."""
    if width and rows:
        yield _Part(chip, 0, Rows(0, width, width, (rows, 0)))
