"""User options of quantisation."""

from dataclasses import dataclass

from vdla.compiler.graph.nodes import GraphError
from vdla.hw.spec.numerics import BYTE_BITS
from vdla.runtime.module.plan import LOST_DB

QUALITIES: dict[str, float | None] = {"fast": None, "balanced": LOST_DB, "exact": 30.0}
"""The required signal-to-noise ratio of every output, in decibels; None: no requirement."""
MOST_DB = 100.0
WEIGHT_BITS = BYTE_BITS
"""Bits of a weight, at most."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a float network is quantised.

    Attributes:
        percentile: the percentile of each activation's magnitudes that its scale covers, from 0 to 100; None:
            ranges are chosen by the cost of the error.
        float_layers: names of nodes, or of their results, that stay in float.
        float_share: share of the multiply-accumulates whose layers may stay in float, in percent; the layers
            that cost most accuracy are chosen.
        target_db: required signal-to-noise ratio of every output on the samples, in decibels; layers stay in
            float until it is reached. None: no requirement.
        weight_bits: of the weights of products, 2 to 8. Accelerators with the extension `narrow_weights` load
            weights of 4 and of 2 bits in a half and in a quarter of the time.
        normalises: softmax and normalisations of rows compute with integers, as accelerators with the
            extension `normalise` execute them.
    """

    percentile: float | None = None
    float_layers: tuple[str, ...] = ()
    float_share: float = 0.0
    target_db: float | None = QUALITIES["balanced"]
    weight_bits: int = WEIGHT_BITS
    normalises: bool = False


def quality_db(quality: str | float) -> float | None:
    """Return the signal-to-noise ratio that a quality requires, in decibels; None: no requirement.

    Args:
        quality: a key of `QUALITIES`, or decibels as a number or text.

    Raises:
        GraphError: the quality is neither.
    """
    if quality in QUALITIES:
        return QUALITIES[str(quality)]
    try:
        decibels = float(quality)
    except (TypeError, ValueError):
        decibels = -1.0
    if not 0 <= decibels <= MOST_DB:
        raise GraphError(
            f"quality {quality} is none of {', '.join(QUALITIES)}, and no number of decibels from 0 to "
            f"{MOST_DB:g}"
        )
    return decibels
