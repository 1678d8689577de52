"""Operators on random data, and the random choices for an operator."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from vdla.compiler.ir.nodes import Func
from vdla.compiler.tasks.base import Choice
from vdla.compiler.te.operators.narrowing import LEAST, Narrowing, Scale, Shift, blocked_parameters
from vdla.compiler.te.operators.sizes import blocks
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.layout import blocked, unblocked
from vdla.runtime.requantise import parameter_words
from vdla.runtime.requantise import requantise as requantised


@dataclass(frozen=True)
class Case:
    """One operator and how it is to be carried out.

    Attributes:
        text: what it is.
        func: its program.
        given: arrays by parameter, in blocks.
        expected: the result, int8[n, c, h, w].
    """

    text: str
    config: AcceleratorConfig
    func: Func
    given: Mapping[str, np.ndarray]
    expected: np.ndarray

    def result(self, out: np.ndarray) -> np.ndarray:
        """Return int8[n, c, h, w] of what the program wrote."""
        n, c, height, width = self.expected.shape
        tile = (self.config.batch, self.config.block_out)
        return unblocked(out.reshape(blocks(n, tile[0]), blocks(c, tile[1]), height, width, *tile), n, c)


class Maker:
    """Random choices for a case."""

    def __init__(self, config: AcceleratorConfig, rng: random.Random) -> None:
        self.config, self.rng = config, rng
        self.data = np.random.default_rng(rng.getrandbits(32))
        self.threads = rng.choice((1, 2, 2, 3))

    def bytes(self, *shape: int) -> np.ndarray:
        """Return random int8 of a shape."""
        return self.data.integers(-128, 128, shape, np.int8)

    def activations(self, size) -> np.ndarray:
        """Return random int8[batch, channels, height, width] for the input of an operator of a size."""
        return self.bytes(size.batch, size.channels, size.height, size.width)

    def blocked(self, values: np.ndarray, block: int) -> np.ndarray:
        """Return activations in the blocked layout, with `block` channels in an element."""
        return blocked(values, block, self.config.batch)

    def narrowing(self) -> Narrowing:
        """Return a random narrowing that the configuration supports."""
        if self.config.has(Extension.REQUANTISE) and self.rng.random() < 0.7:
            return Scale(self.rng.random() < 0.7)
        return Shift(self.rng.randint(0, 10), self.rng.random() < 0.5)

    def narrowed(self, totals: np.ndarray, narrowing: Narrowing) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return int8[n, c, h, w] of totals, and the parameters that make them, in blocks."""
        if isinstance(narrowing, Shift):
            rounded = _in_accumulators(totals + (1 << narrowing.amount >> 1), self.config)
            return np.clip(rounded >> narrowing.amount, 0 if narrowing.rectifies else LEAST, 127).astype(
                np.int8
            ), {}
        words = self.parameters(totals.shape[1] if narrowing.by_channel else 1)
        kept = blocked_parameters(
            words if narrowing.by_channel else np.repeat(words, self.config.block_out, 1), self.config
        )
        return requantised(totals, words[:, :, None, None], self.config.acc_bits), {"P": kept}

    def parameters(self, channels: int) -> np.ndarray:
        """Return random words of requantisation parameters, int64[4, channels]."""
        draw = self.data.integers
        least, greatest = np.sort(draw(-128, 128, (2, channels)), 0)
        return parameter_words(
            draw(-3000, 3000, channels),
            draw(0, 1 << 16, channels),
            draw(8, 28, channels),
            draw(-20, 20, channels),
            least,
            greatest,
        )

    def border(self) -> int:
        """Return what may stand around an input."""
        least = LEAST if self.config.has(Extension.PAD_MINIMUM) else 0
        any_value = self.rng.randint(LEAST, 127) if self.config.has(Extension.PAD_VALUE) else 0
        return self.rng.choice((0, least, any_value, any_value))

    def padding(self) -> tuple[int, int, int, int]:
        """Return four random numbers of rows and columns of padding, 0 to 2 each."""
        return tuple(self.rng.choice((0, 0, 1, 2)) for _ in range(4))

    def choice(self, fits: Callable[[int], bool]) -> Choice:
        """Return a random choice of threads and parts.

        Args:
            fits: whether as many copies of a tile fit the scratchpads.
        """
        choices = [Choice(threads, parts=parts) for threads in (1, 2, 3) for parts in (1, 2)]
        return self.rng.choice([each for each in choices if fits(each.threads * each.parts)])


def _in_accumulators(total: np.ndarray, config: AcceleratorConfig) -> np.ndarray:
    """Return int64[...]: what accumulators hold of sums."""
    return total.astype(f"int{config.acc_bits}").astype(np.int64)
