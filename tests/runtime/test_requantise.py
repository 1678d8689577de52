"""Requantisation of arrays agrees with the definition, value by value."""

import numpy as np
import pytest

from vdla.hw.spec import numerics
from vdla.runtime.requantise import parameter_words, requantise


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("seed", range(5))
def test_arrays_agree_with_the_definition(bits, seed):
    rng = np.random.default_rng(seed)
    values, bias = (rng.integers(-(1 << bits - 1), 1 << bits - 1, 500) for _ in range(2))
    multiplier, shift = rng.integers(0, 1 << 16, 500), rng.integers(0, 64, 500)
    zero, least, greatest = (rng.integers(-128, 128, 500) for _ in range(3))
    words = parameter_words(bias, multiplier, shift, zero, least, greatest)
    scalars = [
        numerics.requantise_parameters(*map(int, numbers))
        for numbers in zip(bias, multiplier, shift, zero, least, greatest, strict=True)
    ]
    assert words.T.tolist() == [list(parameters) for parameters in scalars]
    expected = [
        numerics.requantise(int(value), parameters, bits)
        for value, parameters in zip(values, scalars, strict=True)
    ]
    assert requantise(values, words, bits).tolist() == expected
    wrapped = words.astype(np.int16 if bits == 16 else np.int32)
    assert requantise(values, wrapped, bits).tolist() == expected


def test_accumulators_have_32_bits_and_outputs_all_of_theirs_unless_told_otherwise():
    words = parameter_words(np.array(1), np.array(1), np.array(0))
    assert requantise(np.array([(1 << 31) - 1, -5, 500, -500]), words).tolist() == [-128, -4, 127, -128]
