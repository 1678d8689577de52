"""The address map of interleaved channel blocks, for configurations whose block_in and block_out differ.

An activation in DRAM has blocks of the larger of the two sizes. A program that accesses blocks of the smaller
size sees several blocks in each DRAM block, interleaved pixel by pixel. Its transfers skip the elements of
the other planes, by rows of a single element or by a GATHER.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from vdla.compiler.operands.address_map import AddressMap, Move, Transfer, whole_rows
from vdla.compiler.te.operators.sizes import blocks
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension, MemoryType
from vdla.runtime.stream.builder import Rows, StreamBuilder

CACHED_TRANSFERS = 1 << 12  # tiles of the same rows load them again, and so do the candidates of a choice
MOST_GATHERED_BEATS = 4  # stride of a GATHER, in beats; a LOAD of a single element takes as long


def activation_block(config: AcceleratorConfig) -> int:
    """Return the number of channels of a DRAM block. With `batch` > 1 it is `block_out`: part of an element
    with several rows is not an element."""
    return config.block_out if config.batch > 1 else max(config.block_in, config.block_out)


@dataclass(frozen=True, slots=True)
class Interleaved(AddressMap):
    """The map of images with interleaved channel blocks.

    Attributes:
        parts: number of channel blocks that are interleaved.
        pixels: number of pixels of a plane.
        blocks: number of channel blocks of an image, without padding to a multiple of `parts`.
    """

    parts: int
    pixels: int
    blocks: int

    def place(self, element: int) -> int:
        """Return the position in DRAM of an element that has the position `element` in the dense layout."""
        plane, pixel = divmod(element, self.pixels)
        image, block = divmod(plane, self.blocks)
        outer, inner = divmod(block, self.parts)
        outer += image * blocks(self.blocks, self.parts)
        return (outer * self.pixels + pixel) * self.parts + inner

    def runs(self, element: int, count: int) -> Iterator[tuple[int, int, int]]:
        """Split a row where planes end. Yield for each part: number of preceding elements of the row, DRAM
        position of its first element, number of elements."""
        done = 0
        while done < count:
            taken = min(count - done, self.pixels - (element + done) % self.pixels)
            yield done, self.place(element + done), taken
            done += taken

    def load(self, memory: MemoryType, builder: StreamBuilder, record: Move) -> Move:
        """Return the recorder of LOADs of single elements, or of GATHERs into INP if these are not slower."""
        if memory is MemoryType.INP and uses_gathers(self.parts, builder.config):
            return _gathering(builder, record, self)
        return self.store(record)

    def store(self, record: Move) -> Move:
        """Return the recorder of transfers with rows of a single element."""

        def move(chip: int, tensor: str, element: int, rows: Rows) -> None:
            """Record a transfer with rows of a single element."""
            for place, begin, part in _single_elements(element, rows, self):
                record(chip + place, tensor, begin, part)

        return move


def interleaved(**maps: Interleaved) -> dict[str, AddressMap]:
    """Return the maps, by operand, that interleave several blocks; other operands are dense."""
    return {name: address_map for name, address_map in maps.items() if address_map.parts > 1}


def uses_gathers(parts: int, config: AcceleratorConfig) -> bool:
    """Whether inputs with `parts` interleaved blocks are loaded by GATHERs: `config` has the extension, and
    GATHERs are no slower than LOADs with rows of a single element."""
    step = parts * config.element_bytes(MemoryType.INP)
    quick = step <= isa.MOST_GATHER_STEP and step * 8 <= MOST_GATHERED_BEATS * config.bus_bits
    return quick and config.has(Extension.GATHER)


def _gathering(builder: StreamBuilder, record: Move, layout: Interleaved) -> Move:
    """Return the recorder of GATHERs into INP from interleaved planes; `record` records rows of padding."""
    element_bytes = builder.config.element_bytes(MemoryType.INP)
    step = layout.parts * element_bytes

    def move(chip: int, tensor: str, element: int, rows: Rows) -> None:
        """Record a LOAD as GATHERs."""
        for place, begin, part in _gathers(element, rows, layout, element_bytes):
            if part.height:
                builder.gather_elements(step, chip + place, tensor, begin, part)
            else:
                record(chip + place, tensor, 0, part)

    return move


@lru_cache(maxsize=CACHED_TRANSFERS)
def _gathers(element: int, rows: Rows, layout: Interleaved, element_bytes: int) -> tuple[Transfer, ...]:
    """Split a transfer that begins at `element` into GATHERs, with first bytes and strides in bytes, and rows
    of padding."""
    parts = _gathered_rows(element, rows, layout, isa.LONGEST_ROW // (layout.parts * element_bytes))
    return tuple(
        Transfer(
            part.chip,
            part.dram * element_bytes,
            part.rows._replace(stride=part.rows.stride * element_bytes) if part.rows.height else part.rows,
        )
        for part in parts
    )


@lru_cache(maxsize=CACHED_TRANSFERS)
def _single_elements(element: int, rows: Rows, layout: Interleaved) -> tuple[Transfer, ...]:
    """Split a transfer that begins at `element` into transfers with rows of a single element."""
    return tuple(_columns(element, rows, layout))


def _columns(element: int, rows: Rows, layout: Interleaved) -> Iterator[Transfer]:
    """Yield the transfers of `_single_elements`."""
    (above, below), (left, right), pitch = rows.y_pads, rows.x_pads, _pitch(rows)
    yield from _padding(0, pitch, above)
    height, width = _merged_rows(rows)
    for number in range(height):
        begin = (above + number) * pitch
        for done, place, count in layout.runs(element + number * rows.stride, width):
            ends = 0 if done else left, right if done + count == width else 0
            yield from _column(
                begin + (left + done if done else 0), place, Rows(count, 1, layout.parts, ends)
            )
    yield from _padding((above + rows.height) * pitch, pitch, below)


def _column(chip: int, place: int, rows: Rows) -> Iterator[Transfer]:
    """Split rows of a single element into transfers that fit the fields of an instruction."""
    if rows.height <= isa.LONGEST_ROW:
        yield Transfer(chip, place, rows)
        return
    (before, after), done = rows.y_pads, 0
    while done < rows.height:
        count = min(rows.height - done, isa.LONGEST_ROW)
        pads = 0 if done else before, after if done + count == rows.height else 0
        at = chip + (before + done if done else 0)
        yield Transfer(at, place + done * rows.stride, rows._replace(height=count, y_pads=pads))
        done += count


def _gathered_rows(element: int, rows: Rows, layout: Interleaved, longest: int) -> Iterator[Transfer]:
    """Split a transfer that begins at `element` into GATHERs, with strides in elements, and rows of padding.

    Consecutive rows of the same plane without horizontal padding stay a single GATHER.
    """
    (above, below), (left, right), pitch = rows.y_pads, rows.x_pads, _pitch(rows)
    yield from _padding(0, pitch, above)
    height, width = _merged_rows(rows)
    number = 0
    while number < height:
        first, chip = element + number * rows.stride, (above + number) * pitch
        room = layout.pixels - first % layout.pixels
        together = 0 if left or right else whole_rows(rows._replace(width=width), height - number, room)
        if together * max(rows.stride, width) and max(rows.stride, width) <= longest:
            size = Rows(together, width, rows.stride * layout.parts if together > 1 else 0)
            yield Transfer(chip, layout.place(first), size)
        else:
            together = 1
            yield from _padding(chip, 0 if number else left, 1)
            for done, place, count in layout.runs(first, width):
                for begin in range(0, count, longest):
                    size = Rows(1, min(longest, count - begin), 0)
                    yield Transfer(chip + left + done + begin, place + begin * layout.parts, size)
            ends = right + left if number + 1 < height else right
            yield from _padding(chip + left + width, ends, 1)
        number += together
    yield from _padding((above + rows.height) * pitch, pitch, below)


def _merged_rows(rows: Rows) -> tuple[int, int]:
    """Return height and width of a transfer, with contiguous rows merged into a single row."""
    dense = rows.height > 1 and not any(rows.x_pads) and rows.stride == rows.width
    return (1, rows.height * rows.width) if dense else (rows.height, rows.width)


def _pitch(rows: Rows) -> int:
    """Return the number of elements of a row on chip, padding included."""
    return sum(rows.x_pads) + rows.width


def _padding(chip: int, width: int, rows: int) -> Iterator[Transfer]:
    """Yield a transfer of `rows` rows of padding, unless it is empty."""
    if width and rows:
        yield Transfer(chip, 0, Rows(0, width, width, (rows, 0)))
