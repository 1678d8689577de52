"""Operators that move elements: their result on the numbers of places tells where each element comes from."""

from collections.abc import Mapping, Sequence

import numpy as np

from vdla.compiler.graph.moves import REARRANGING
from vdla.prove.elements import Elements
from vdla.runtime.host.evaluate import evaluate

ALL = 1 << 30
MOVED_INPUTS = {
    "Concat": ALL,
    "DepthToSpace": 1,
    "Expand": 1,
    "Gather": 1,
    "Dropout": 1,
    "GatherElements": 1,
    "Identity": 1,
    "Pad": 1,
    "Resize": 1,
    "Slice": 1,
    "SpaceToDepth": 1,
    "Split": 1,
    "Tile": 1,
    **dict.fromkeys(REARRANGING, 1),
}
"""How many inputs of an operator hold what it moves. The others are constants that say where to."""


def moved(
    op: str,
    inputs: Sequence[Elements],
    others: Sequence[np.ndarray | None],
    attributes: Mapping[str, object],
    border: Elements,
) -> list[Elements]:
    """Return the results of an operator of `MOVED_INPUTS`.

    Args:
        inputs: elements that it moves.
        others: its other inputs.
        border: element[], with which Pad fills.
    """
    flat = np.concatenate([border.reshape(1), *(each.reshape(-1) for each in inputs)])
    ends = np.cumsum([1, *(each.size for each in inputs)])
    places = [
        np.arange(end, end + each.size).reshape(each.shape) for end, each in zip(ends, inputs, strict=False)
    ]
    if op == "Pad":
        attributes = {**attributes, "value": 0}  # the place of the border
    return [flat[result] for result in evaluate(op, [*places, *others], attributes)]
