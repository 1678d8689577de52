"""What is known of an input of a network before samples fit it."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

SEQUENCES = re.compile(
    r"seq|len|time|frame|token|step|point|word|char|height|width|row|col|num|count|size|^[tlshwc]$",
    re.IGNORECASE,
)
"""Names of open extents that tell of something else than a batch."""
BATCHES = re.compile(r"batch|^(n|b|bs)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Declared:
    """The type of an input, as far as it is known.

    Attributes:
        shape: extents, None for an open extent; None where not even the rank is known.
        dtype: as NumPy calls it.
        names: of the extents where they are open in the file; "" elsewhere, and where they have none.
        is_batch: whether samples may stand behind each other along the first axis: its extent is 1, or open
            in the file and not named after something else.
    """

    shape: tuple[int | None, ...] | None
    dtype: str
    names: tuple[str, ...] = ()
    is_batch: bool = False

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.dtype}[...]"
        names = self.names or ("",) * len(self.shape)
        extents = (
            (name or "?") if extent is None else str(extent)
            for extent, name in zip(self.shape, names, strict=True)
        )
        return f"{self.dtype}[{', '.join(extents)}]"


def static(shape: Sequence[int], dtype: str) -> Declared:
    """Return an input of which everything is known."""
    return Declared(tuple(shape), dtype, (), is_batch=bool(shape) and shape[0] == 1)


def is_batch_name(name: str, others: Iterable[str]) -> bool:
    """Whether an open first extent is a batch, by its name and the names of the other extents.

    Files whose exporters name nothing leave out batches more often than lengths.
    """
    if BATCHES.search(name):
        return True
    return not SEQUENCES.search(name) and not any(
        BATCHES.search(other) or other == name for other in others if other
    )
