"""Attributes that ONNX's shape inference does not check."""

import pytest

from vdla.compiler.graph.onnx.call import RefusalError
from vdla.compiler.graph.onnx.infer import LARGEST_ATTRIBUTE, check_attributes

BEYOND = LARGEST_ATTRIBUTE
ACCEPTED = (
    {},
    {"strides": (), "axes": ()},
    {"group": 1, "strides": (1, 2)},
    {"axis": -3, "pads": (0, -1)},
    {"kernel_shape": (1, BEYOND - 1), "perm": (1 - BEYOND,)},
    {"size": "none", "alpha": 0, "fmod": BEYOND},
)
REFUSED = (
    ({"strides": (1, 0)}, r"attribute strides = \(1, 0\) must be positive"),
    ({"group": -1}, r"attribute group = -1 must be positive"),
    ({"dilations": (BEYOND, 1)}, rf"attribute dilations = \({BEYOND}, 1\) is beyond any tensor"),
    ({"axis": -BEYOND}, rf"attribute axis = -{BEYOND} is beyond any tensor"),
)


@pytest.mark.parametrize("attributes", ACCEPTED, ids=str)
def test_what_some_tensor_can_have_is_accepted(attributes):
    check_attributes(attributes)


@pytest.mark.parametrize(("attributes", "message"), REFUSED, ids=str)
def test_what_no_tensor_can_have_is_refused(attributes, message):
    with pytest.raises(RefusalError, match=f"^{message}$"):
        check_attributes(attributes)
