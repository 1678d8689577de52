"""Which task of a network is searched next: the task whose next batch promises most for the network."""

from collections.abc import Sequence
from dataclasses import dataclass, field

RECENT = 3  # batches whose improvement counts


@dataclass
class Standing:
    """How far the search of a task is.

    Attributes:
        layers: names of the layers in which the task occurs; a layer that has it several times, as often.
        default: cycles of the compiler's default choice.
        bound: cycles below which no choice gets.
        best: cycles of the best choice so far.
        trials: that were measured.
        history: `best` before each batch.
        exhausted: whether every choice was proposed.
    """

    layers: Sequence[str]
    default: int
    bound: int
    best: int
    trials: int = 0
    history: list[int] = field(default_factory=list)
    exhausted: bool = False

    @property
    def name(self) -> str:
        """The first layer, and how many more there are."""
        more = len(self.layers) - 1
        return f"{self.layers[0]} and {more} more" if more else self.layers[0]

    @property
    def gap(self) -> int:
        """Cycles that the best search could still save each time that the task occurs."""
        return max(self.best - self.bound, 0)

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to search for."""
        return self.exhausted or not self.gap

    @property
    def rate(self) -> float:
        """The share of the gap that the next batch may close: the share of recent batches, and a hope that
        fades with every batch."""
        hope = 1 / (2 + len(self.history))
        if not self.history:
            return hope
        recent = self.history[-RECENT:]
        return hope + (recent[0] - self.best) / (recent[0] - self.bound) / len(recent)

    @property
    def expected(self) -> float:
        """Cycles of the whole network that the next batch may save."""
        return 0.0 if self.is_done else len(self.layers) * self.gap * self.rate


def next_of(standings: Sequence[Standing]) -> int | None:
    """Return the place of the task that is searched next, of equal tasks the first; None: all are done."""
    expected = [standing.expected for standing in standings]
    best = max(expected, default=0.0)
    return expected.index(best) if best > 0 else None
