"""Packed pixels, of which the accelerator reads overlapping windows with GATHER."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from vdla.runtime.borders import bordered

Extent = Annotated[int, Meta(ge=1, lt=1 << 31)]
Padding = Annotated[int, Meta(gt=-1 << 31, lt=1 << 31)]


class Windows(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An image with its channels last, whose rows the accelerator reads as windows of an element's bytes.

    Window x of a row is the bytes from `x * step` on.

    Attributes:
        columns: windows of a row.
        step: bytes from one window to the next.
        pitch: bytes from one row to the next; the last window ends within its row.
        pads: pixels added above, left and below before, less than 0: cut off; rows end after `pitch` bytes.
        border: value of the added pixels, and of those behind the image in a row.
    """

    columns: Extent
    step: Extent
    pitch: Extent
    pads: tuple[Padding, Padding, Padding]
    border: Annotated[int, Meta(ge=-128, le=127)] = 0

    def rows(self, height: int) -> int:
        """Return the rows in DRAM of an image of `height` rows."""
        top, _, below = self.pads
        return height + top + below

    def pack(self, image: np.ndarray) -> np.ndarray:
        """Return int8[n, rows, pitch] of int8[n, c, h, w]."""
        n, channels, height, width = image.shape
        top, left, below = self.pads
        right = max(0, -(-self.pitch // channels) - left - width)
        used = image[:, :, : height + min(below, 0)].transpose(0, 2, 3, 1)
        whole = bordered(used, ((0, 0), (top, max(below, 0)), (left, right), (0, 0)), self.border)
        lines = whole.reshape(n, self.rows(height), -1)[..., : self.pitch]
        return np.ascontiguousarray(lines)

    def pieces(self, element: int, height: int, width: int, stride: int) -> Iterator["Piece"]:
        """Yield what loads rows of windows, given in windows counted row by row: `height` rows of `width`
        windows each, `stride` windows apart, from window `element` on."""
        place = element % self.columns
        if place + width <= self.columns and (height == 1 or stride % self.columns == 0):
            yield self._piece(0, element, height, width, stride if height > 1 else 0)
        elif height == 1 and place == 0 and width % self.columns == 0:
            yield self._piece(0, element, width // self.columns, self.columns, self.columns)
        else:
            yield from self._lines(element, height, width, stride)

    def _lines(self, element: int, height: int, width: int, stride: int) -> Iterator["Piece"]:
        """Yield a piece for each part of a row that lies in a row of the image."""
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
        place: windows on chip before its first one.
    """

    place: int
    begin: int
    height: int
    width: int
    stride: int
