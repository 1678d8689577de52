"""Products of two int8 tensors: parts of matrices, transposed or not, and what they refuse."""

import numpy as np
import pytest

from vdla.runtime.host.evaluate import OperatorError, evaluate
from vdla.runtime.host.products import int8_products
from vdla.runtime.requantise import parameter_words, requantise

RNG = np.random.default_rng(0)
WORDS = parameter_words(*(np.array([number]) for number in (77, 41000, 25, -3, -120, 125)))


def i8(*shape: int) -> np.ndarray:
    return RNG.integers(-128, 128, shape, np.int8)


def expected(a: np.ndarray, b: np.ndarray, zeros: tuple[int, int]) -> np.ndarray:
    """Return the requantised product of matrices, stacked in the leading dimensions."""
    sums = (a.astype(np.int64) - zeros[0]) @ (b.astype(np.int64) - zeros[1])
    return requantise(sums, WORDS.reshape(4, *[1] * sums.ndim))


@pytest.mark.parametrize("zeros", [(0, 0), (-128, 127)])
def test_heads_side_by_side_and_one_below_the_other(zeros):
    queries, keys = i8(1, 7, 3 * 4), i8(1, 9, 5 + 3 * 4)
    scores = int8_products(
        queries,
        keys,
        WORDS,
        a_places=(0, 0, 0, 4, 0, 8),
        b_places=(0, 5, 0, 9, 0, 13),
        places=(0, 0, 7, 0, 14, 0),
        shape=(3, 7, 9),
        size=(7, 9, 4),
        transposed=1,
        zeros=zeros,
    )
    heads = queries.reshape(7, 3, 4).transpose(1, 0, 2), keys[0, :, 5:].reshape(9, 3, 4).transpose(1, 2, 0)
    assert np.array_equal(scores, expected(*heads, zeros))
    values = i8(9, 2 * 3)
    joined = int8_products(
        scores,
        values,
        WORDS,
        a_places=(0, 0, 14, 0),
        b_places=(0, 0, 0, 3),
        places=(0, 3, 0, 0),
        shape=(7, 6),
        size=(7, 3, 9),
        transposed=0,
        zeros=zeros,
    )
    first, last = (expected(scores[head], values[:, at : at + 3], zeros) for head, at in ((0, 0), (2, 3)))
    assert np.array_equal(joined, np.hstack([last, first]))


@pytest.mark.parametrize("place", [0, 1])
def test_operands_may_be_looked_up_first(place):
    operands, table = [i8(3, 4), i8(4, 5)], i8(256)
    tables = [table if place == number else None for number in (0, 1)]
    whole = {"a_places": (0, 0), "b_places": (0, 0), "places": (0, 0), "shape": (3, 5), "size": (3, 5, 4)}
    made = int8_products(*operands, WORDS, *tables, **whole, transposed=0, zeros=(3, 4))
    operands[place] = table[operands[place].astype(int) + 128]
    assert np.array_equal(made, expected(*operands, (3, 4)))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"a_places": (1, 0)}, "3x2 elements from row 1, column 0 on leave a matrix of 3x4"),
        ({"b_places": (0, 3)}, "5x2 elements from row 0, column 3 on leave a matrix of 5x4"),
        ({"places": (-1, 0)}, "3x5 elements from row -1, column 0 on leave a matrix of 3x5"),
        ({"places": (0,)}, "are no pairs of a row and a column"),
        ({"places": (0, 0, 0, 0)}, "zip"),
        ({"size": (3, 5)}, "unpack"),
    ],
)
def test_parts_stay_inside_their_matrices(changed, message):
    whole = {
        "a_places": (0, 0),
        "b_places": (0, 0),
        "places": (0, 0),
        "shape": (3, 5),
        "size": (3, 5, 2),
        "transposed": 1,
        "zeros": (0, 0),
    }
    with pytest.raises(OperatorError, match=message):
        evaluate("Int8Products", [i8(3, 4), i8(5, 4), WORDS], {**whole, **changed})
