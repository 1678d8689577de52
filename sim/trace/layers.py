"""Layers of a network along a run, for the timeline."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from vdla.sim.records import IntArray


@dataclass(frozen=True, eq=False)
class TracedLayer:
    """A layer in a run.

    Attributes:
        name, op: of the layer.
        begin, end: its cycles, from the end of the layer before to the retirement of its last instruction.
        instructions: int64[n], the instructions of the layer.
    """

    name: str
    op: str
    begin: int
    end: int
    instructions: IntArray


def layer_names(layers: Iterable[TracedLayer], count: int) -> list[str]:
    """Return the name of the layer of each of `count` instructions; "" where it belongs to none."""
    names = np.full(count, "", dtype=object)
    for layer in layers:
        names[layer.instructions] = layer.name
    return [str(name) for name in names]
