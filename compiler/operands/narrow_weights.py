"""Weights of fewer bits in DRAM than in the scratchpad: LOADs decode them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from vdla.compiler.operands.address_map import AddressMap, Move
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.stream.builder import StreamBuilder

BYTE = 8


@dataclass(frozen=True, slots=True)
class NarrowWeights(AddressMap):
    """The dense map of weights whose LOADs have `halvings`."""

    halvings: int

    def load(self, memory: MemoryType, builder: StreamBuilder, record: Callable[..., None]) -> Move:
        """Return the recorder of LOADs that decode weights; `record` records dense LOADs."""
        return partial(record, halvings=self.halvings)

    def size(self, dense: int) -> int:
        """Return the bytes of weights that take `dense` bytes with all of their bits."""
        return dense >> self.halvings


def halvings_of(weights: np.ndarray, config: AcceleratorConfig) -> int:
    """Return how often the bits of all weights in DRAM can be halved, so that LOADs of `config` restore
    them."""
    least, greatest = int(weights.min(initial=0)), int(weights.max(initial=0))
    bits = max(greatest.bit_length(), (-1 - least).bit_length() if least < 0 else 0) + 1
    fitting = (
        count for count in config.halvings(MemoryType.WGT) if bits <= config.value_bits(MemoryType.WGT, count)
    )
    return max(fitting, default=0)


def narrowed(weights: np.ndarray, halvings: int) -> np.ndarray:
    """Return int8 weights as LOADs with `halvings` read them: the values fill each byte from its low bits
    upward. The last dimension is 2^halvings times shorter."""
    count = 1 << halvings
    bits = BYTE >> halvings
    parts = weights.view(np.uint8).reshape(*weights.shape[:-1], -1, count) & ((1 << bits) - 1)
    shifted = parts << (np.arange(count, dtype=np.uint8) * bits)
    packed: np.ndarray = np.bitwise_or.reduce(shifted, axis=-1).view(np.int8)
    return packed
