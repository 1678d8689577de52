"""Weights of few bits: how they stand in DRAM."""

import numpy as np
import pytest

from vdla.compiler.operands.narrow_weights import NarrowWeights, halvings_of, narrowed
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.vocabulary import Extension

NARROWING = TINY.with_changes(name="narrowing", extensions=tuple(Extension))


@pytest.mark.parametrize(
    ("values", "halvings"),
    [
        ((-128, 127), 0),
        ((-9, 0), 0),
        ((0, 8), 0),
        ((-8, 7), 1),
        ((-3, 0), 1),
        ((0, 2), 1),
        ((-2, 1), 2),
        ((0, 0), 2),
    ],
)
def test_values_are_halved_as_often_as_they_fit(values, halvings):
    assert halvings_of(np.array([values], np.int8), NARROWING) == halvings


def test_no_weights_at_all_are_halved_without_an_error():
    assert halvings_of(np.zeros((0, 4), np.int8), NARROWING) == 2


def test_an_accelerator_without_the_extension_loads_whole_weights():
    assert halvings_of(np.zeros((1, 4), np.int8), DEFAULT) == 0


def test_values_fill_a_byte_from_its_low_bits_upward():
    assert narrowed(np.array([[1, -8, 7, -1]], np.int8), 1).view(np.uint8).tolist() == [[0x81, 0xF7]]
    assert narrowed(np.array([[1, -2, 0, -1]], np.int8), 2).view(np.uint8).tolist() == [[0b11_00_10_01]]


@pytest.mark.parametrize("halvings", [1, 2])
def test_narrow_weights_are_as_many_bytes_as_their_map_says(halvings):
    weights = np.zeros((3, 2, 4, 4), np.int8)
    assert narrowed(weights, halvings).nbytes == NarrowWeights(halvings).size(weights.nbytes)
