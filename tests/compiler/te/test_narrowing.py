"""The expression of requantisation means what the specification says."""

import random

import numpy as np
import pytest

from vdla.compiler.ir.interpret import evaluate
from vdla.compiler.ir.nodes import Buffer, Const, Read
from vdla.compiler.te.operators.narrowing import requantised
from vdla.hw.spec.numerics import requantise, requantise_parameters, wrap


@pytest.mark.parametrize("shift", [0, 1, 17, 31, 32, 47, 62, 63])
def test_the_expression_agrees_with_the_definition(shift):
    rng, words = random.Random(shift), Buffer("words", (5,), "int32")
    for _ in range(50):
        value, bias = (rng.randrange(-(1 << 31), 1 << 31) for _ in range(2))
        kept = requantise_parameters(
            bias, rng.randrange(1 << 16), shift, *(rng.randrange(-128, 128) for _ in range(3))
        )
        arrays = {"words": np.array([wrap(word, 32) for word in (value, *kept)], np.int32)}
        result = evaluate(
            requantised(Read(words, (Const(0),)), lambda row: Read(words, (Const(int(row) + 1),))), arrays, {}
        )
        assert result == requantise(value, kept, 32)
