"""Windows of packed lines, which a convolution with few channels reads in place of pixels.

The host packs one or more rows of an image into each line. A column of a line holds the channels of a pixel
of each of these rows. A window is a number of consecutive bytes of a line. These bytes are the channels of a
convolution over windows. Windows may overlap.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from vdla.runtime.borders import bordered

Extent = Annotated[int, Meta(ge=1, lt=1 << 31)]
Count = Annotated[int, Meta(ge=0, lt=1 << 31)]


class Windows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An image as windows of packed lines.

    Line l holds the rows from `l * advance` on of the image with its border. Window x of a line is the bytes
    from `x * step` on. Lines stand in DRAM as they are, for GATHER, or as separate windows, for LOAD.

    Attributes:
        lines: lines of an image.
        rows: rows of the image that a line holds.
        advance: rows from the first row of a line to the first row of the next.
        column: bytes of a column of a line, at least `rows` x channels; further bytes hold the border.
        columns: windows of a line.
        step: bytes from one window to the next.
        pads: rows added above the image, and columns added to its left.
        pitch: bytes from one line to the next in DRAM; 0: the windows are stored one by one.
        elements: elements of a window of which each has the channels of a block; 1 if `pitch` is not 0.
        border: value of the added pixels, and of the pixels behind the image.
    """

    lines: Extent
    rows: Extent
    advance: Extent
    column: Extent
    columns: Extent
    step: Extent
    pads: tuple[Count, Count]
    pitch: Count = 0
    elements: Extent = 1
    border: Annotated[int, Meta(ge=-128, le=127)] = 0

    @property
    def height(self) -> int:
        """Rows of the image with its border, from the first that a line holds to the last."""
        return (self.lines - 1) * self.advance + self.rows

    def window_bytes(self, block: int) -> int:
        """Return the bytes from the first window of a line to the end of the last; `block` bytes are an
        element."""
        return (self.columns - 1) * self.step + self.elements * block

    def room(self, shape: tuple[int, ...], block: int) -> int:
        """Return the bytes that packing an image [n, channels, height, width] allocates at most."""
        n, channels, height, width = shape
        whole = -(-max(self.pitch, self.window_bytes(block)) // self.column)
        around = channels * (self.height + self.pads[0] + height) * (whole + self.pads[1] + width)
        return n * (around + self.lines * whole * self.column)

    def packed(self, image: np.ndarray, block: int) -> np.ndarray:
        """Return the lines of an image, [n, lines, line bytes] of [n, channels, height, width].

        Args:
            block: bytes of an element of a window.
        """
        n, channels, height, width = image.shape
        (top, left), size = self.pads, self.pitch or self.window_bytes(block)
        whole = -(-size // self.column)
        behind = max(0, self.height - top - height), max(0, whole - left - width)
        around = bordered(image, ((0, 0), (0, 0), (top, behind[0]), (left, behind[1])), self.border)
        lines = np.full((n, self.lines, whole, self.column), self.border, image.dtype)
        for row in range(self.rows):
            used = around[:, :, row : row + self.height - self.rows + 1 : self.advance, :whole]
            begin = row * channels
            lines[..., begin : begin + channels] = used.transpose(0, 2, 3, 1)
        return lines.reshape(n, self.lines, -1)[..., :size]

    def apply(self, image: np.ndarray, block: int) -> np.ndarray:
        """Return the image of windows, [n, elements * block, lines, columns] of [n, channels, height, width];
        its channels are the bytes of a window."""
        lines = self.packed(image, block)
        windows = np.lib.stride_tricks.sliding_window_view(lines, self.elements * block, axis=-1)
        return windows[:, :, :: self.step][:, :, : self.columns].transpose(0, 3, 1, 2)


@dataclass(frozen=True, slots=True)
class GatheredLines:
    """Lines of which GATHER reads windows.

    Attributes:
        columns: windows of a line.
        step: bytes from one window to the next.
        pitch: bytes from one line to the next.
    """

    columns: int
    step: int
    pitch: int

    def pieces(self, element: int, height: int, width: int, stride: int) -> Iterator["Piece"]:
        """Yield what loads rows of windows, given in windows counted line by line: `height` rows of `width`
        windows each, `stride` windows apart, from window `element` on."""
        place = element % self.columns
        if place + width <= self.columns and (height == 1 or stride % self.columns == 0):
            yield self._piece(0, element, height, width, stride if height > 1 else 0)
        elif height == 1 and place == 0 and width % self.columns == 0:
            yield self._piece(0, element, width // self.columns, self.columns, self.columns)
        else:
            yield from self._lines(element, height, width, stride)

    def _lines(self, element: int, height: int, width: int, stride: int) -> Iterator["Piece"]:
        """Yield a piece for each part of a row that lies in a single line."""
        for number in range(height):
            done = 0
            while done < width:
                first = element + number * stride + done
                count = min(width - done, self.columns - first % self.columns)
                yield self._piece(number * width + done, first, 1, count, 0)
                done += count

    def _piece(self, place: int, element: int, height: int, width: int, stride: int) -> "Piece":
        line, column = divmod(element, self.columns)
        begin = line * self.pitch + column * self.step
        return Piece(place, begin, height, width, stride // self.columns * self.pitch)


@dataclass(frozen=True, slots=True)
class Piece:
    """What one GATHER loads: `height` rows of `width` windows, from byte `begin` on, `stride` bytes apart.

    Attributes:
        place: windows on chip before its first window.
    """

    place: int
    begin: int
    height: int
    width: int
    stride: int
