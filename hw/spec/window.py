"""The window of a DEPTHWISE: which inputs and weights the sum of a channel consists of."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

TAPS = 3
"""Columns of the window of a DEPTHWISE that is not `wide`."""
WIDE_TAPS = 5
"""Columns of the window of a DEPTHWISE that is `wide`."""
PAIR = 2
"""Neighbouring columns of the array that share their inputs, where two products share a multiplier."""
SHAPES = ((4, WIDE_TAPS), (3, WIDE_TAPS), (2, TAPS), (1, TAPS))
"""Rows and columns of windows that arrays have inputs for, the largest first."""

MOST_ROWS = 4
"""Rows that the window of a DEPTHWISE has at most."""


class Term(NamedTuple):
    """A product of a sum.

    Attributes:
        row, column: of the window.
        channel: of the group of channels that share their inputs.
        place: the number of the weight, and of the array's input.
    """

    row: int
    channel: int
    column: int
    place: int


@dataclass(frozen=True, slots=True)
class Window:
    """The largest window that an array sums in a slot.

    Attributes:
        rows, columns: its extents.
        channels: of the elements of a window that a column of the array sums: neighbours share their inputs.
    """

    rows: int
    columns: int
    channels: int

    @property
    def inputs(self) -> int:
        """The inputs of a column of the array that a window needs."""
        return self.rows * self.columns * self.channels

    def place(self, row: int, channel: int, column: int, columns: int) -> int:
        """Return the number of the weight of a term; a window of `columns` columns has the last weights."""
        return (row * self.channels + channel) * self.columns + self.columns - columns + column

    def terms(self, more_rows: int = 0, wide: int = 0) -> Iterator[Term]:
        """Yield the terms of the sums of a DEPTHWISE with these fields. Rows and columns that the array has
        no inputs for have no effect."""
        columns = window_columns(wide)
        for row in range(min(1 + more_rows, self.rows)):
            for channel in range(self.channels):
                for column in range(max(0, columns - self.columns), columns):
                    yield Term(row, channel, column, self.place(row, channel, column, columns))


def window_columns(wide: Any) -> Any:
    """Return the columns of the window of a DEPTHWISE (numbers, arrays, or values of native code)."""
    return TAPS + (WIDE_TAPS - TAPS) * wide


def row_distance(row_step: Any) -> Any:
    """Return the elements from one row of a window to the next: an odd number, so that neighbouring rows are
    in different banks of INP."""
    return 2 * row_step + 1


def largest_window(inputs: int, channels: int) -> Window:
    """Return the largest window of an array with `inputs` inputs of a column, of which neighbours share
    `channels`."""
    shape = next(shape for shape in SHAPES if shape[0] * shape[1] * channels <= inputs)
    return Window(*shape, channels)
