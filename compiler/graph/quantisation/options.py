"""What people ask of quantisation."""

from dataclasses import dataclass

from vdla.compiler.graph.nodes import GraphError
from vdla.runtime.module.plan import LOST_DB

QUALITIES: dict[str, float | None] = {"fast": None, "balanced": LOST_DB, "exact": 30.0}
"""The signal to noise in decibels that every output is to have; None: whatever it comes to."""
MOST_DB = 100.0


@dataclass(frozen=True, slots=True)
class Options:
    """How a float network is quantised.

    Attributes:
        percentile: percentile of each activation's magnitudes that its scale must hold, from 0 to 100; None:
            the range of each activation is chosen by what the error costs.
        float_layers: names of nodes, or of their results, that stay in float.
        float_share: percent of the multiply-accumulates whose layers may stay in float; those that cost most
            of the accuracy are chosen.
        target_db: signal to noise that every output is to have on the samples; layers stay in float until it
            is reached. None: no layer does for it.
    """

    percentile: float | None = None
    float_layers: tuple[str, ...] = ()
    float_share: float = 0.0
    target_db: float | None = QUALITIES["balanced"]


def quality_db(quality: str | float) -> float | None:
    """Return the signal to noise that a quality stands for, in decibels; None: whatever it comes to.

    Args:
        quality: a name of `QUALITIES`, or decibels, as a number or as text.

    Raises:
        GraphError: it is neither.
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
