"""Numbers of ONNX attributes."""

import warnings

import numpy as np
import pytest

from vdla.compiler.graph.onnx.tensors import shortest


@pytest.mark.parametrize(
    ("value", "expected"),
    [(np.float32(0.1), 0.1), (0.1, 0.1), (1e39, np.inf), (-1e39, -np.inf), (1e-50, 0.0), (np.inf, np.inf)],
)
def test_a_number_is_written_with_few_digits_and_without_a_warning(value, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert shortest(value) == expected
