"""What people ask of quantisation."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Options:
    """How a float network is quantised.

    Attributes:
        percentile: percentile of each activation's magnitudes that its scale must hold, from 0 to 100; None:
            the range of each activation is chosen by what the error costs.
        float_layers: names of nodes, or of their results, that stay in float.
        float_share: percent of the multiply-accumulates whose layers may stay in float; those that cost most
            of the accuracy are chosen.
    """

    percentile: float | None = None
    float_layers: tuple[str, ...] = ()
    float_share: float = 0.0
