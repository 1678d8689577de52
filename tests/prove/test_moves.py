"""Operators that move elements move the elements of proofs as the host moves numbers."""

import numpy as np
import pytest

from vdla.compiler.graph.nodes import REARRANGING
from vdla.prove.domain import Domain
from vdla.prove.reference import MOVED_INPUTS, moved
from vdla.runtime.host.evaluate import OPERATORS, evaluate

NEAREST = {
    "coordinate_transformation_mode": "asymmetric",
    "nearest_mode": "floor",
    "scales": (1.0, 2.0, 1.0),
    "sizes": (2, 6, 4),
}
CASES = {
    "Concat": ([(2, 3, 4), (2, 1, 4)], [], {"axis": 1}),
    "DepthToSpace": ([(1, 8, 2, 3)], [], {"blocksize": 2, "mode": "CRD"}),
    "Dropout": ([(2, 3)], [], {}),
    "Expand": ([(2, 1, 4)], [], {"shape": (2, 3, 4)}),
    "Flatten": ([(2, 3, 4)], [], {"axis": 2}),
    "Gather": ([(2, 3, 4)], [np.array([2, 0, -1])], {"axis": 1}),
    "GatherElements": ([(2, 3)], [np.array([[2, 0], [1, 1]])], {"axis": 1}),
    "Identity": ([(2, 3)], [], {}),
    "Pad": ([(2, 3)], [], {"mode": "constant", "pads": (1, -1, 0, 2), "value": 7}),
    "Reshape": ([(2, 3, 4)], [], {"shape": (4, 6)}),
    "Resize": ([(2, 3, 4)], [], NEAREST),
    "Slice": ([(2, 7)], [], {"axes": (1,), "starts": (6,), "ends": (1,), "steps": (-2,)}),
    "SpaceToDepth": ([(1, 2, 4, 6)], [], {"blocksize": 2, "mode": "DCR"}),
    "Split": ([(2, 5)], [], {"axis": 1, "split": (2, 3)}),
    "Squeeze": ([(2, 1, 3)], [], {"axes": (1,)}),
    "Tile": ([(2, 3)], [], {"repeats": (2, 3)}),
    "Transpose": ([(2, 3, 4)], [], {"perm": (2, 0, 1)}),
    "Unsqueeze": ([(2, 3)], [], {"axes": (0, 2)}),
}


def test_every_operator_has_a_case():
    assert CASES.keys() == MOVED_INPUTS.keys()
    assert MOVED_INPUTS.keys() <= OPERATORS.keys()
    assert set(REARRANGING) <= MOVED_INPUTS.keys()


@pytest.mark.parametrize("op", CASES)
def test_elements_move_as_numbers_do(op):
    shapes, others, attributes = CASES[op]
    domain, rng = Domain(1), np.random.default_rng(1)
    arrays = [rng.integers(-128, 128, shape).astype(np.int8) for shape in shapes]
    border = domain.constants(np.array(attributes.get("value", 0)))
    results = moved(op, [domain.constants(array) for array in arrays], others, attributes, border)
    expected = evaluate(op, [*arrays, *others], attributes)
    assert len(results) == len(expected)
    for result, values in zip(results, expected, strict=True):
        assert (result == domain.constants(values)).all()


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_borders_of_elements_repeat_them(mode):
    domain = Domain(1)
    x = domain.fresh("x", (3,))
    (result,) = moved(
        "Pad", [x], [], {"mode": mode, "pads": (1, 1), "value": 0}, domain.constants(np.array(0))
    )
    assert (result == np.pad(x, 1, mode)).all()
