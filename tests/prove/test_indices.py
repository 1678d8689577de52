"""Tests of the index arithmetic of loop instructions: it means what the instructions mean step by step."""

from itertools import product

import numpy as np
import pytest

from vdla.hw.spec.window import Window
from vdla.prove.indices import LoopFactors, Steps, depthwise_rows, last_of_each, levels, products, steps_of

UOPS = (np.array([5, 0, 5]), np.array([1, 7, 2]), np.array([3, 3, 0]))
LOOPS = [
    LoopFactors(iter_out=2, iter_in=3, dst_factor_out=6, dst_factor_in=2, src_factor_in=1, wgt_factor_out=3),
    LoopFactors(iter_out=1, iter_in=4, src_factor_in=2, wgt_factor_in=1),
    LoopFactors(iter_out=4, iter_in=0),
    LoopFactors(iter_out=2, iter_in=2, dst_factor_out=4, src_factor_out=3, src_factor_in=1),
]


@pytest.mark.parametrize("loop", LOOPS, ids=str)
def test_steps_are_those_of_the_loops_in_order(loop):
    expected = [
        tuple(
            int(base) + i * getattr(loop, f"{name}_factor_out") + j * getattr(loop, f"{name}_factor_in")
            for name, base in zip(("dst", "src", "wgt"), uop, strict=True)
        )
        for i, j in product(range(loop.iter_out), range(loop.iter_in))
        for uop in zip(*UOPS, strict=True)
    ]
    steps = steps_of(loop, UOPS)
    assert list(zip(steps.dst.tolist(), steps.src.tolist(), steps.wgt.tolist(), strict=True)) == expected


@pytest.mark.parametrize("stride_2", [0, 1])
@pytest.mark.parametrize(("more_rows", "wide", "columns"), [(0, 0, 3), (2, 0, 3), (1, 1, 5), (3, 1, 5)])
def test_sums_of_a_depthwise_are_those_of_its_rows(stride_2, more_rows, wide, columns):
    loop = LoopFactors(
        stride_2=stride_2,
        more_rows=more_rows,
        wide=wide,
        row_step=4,
        iter_out=2,
        iter_in=3,
        dst_factor_out=10,
        dst_factor_in=1,
        src_factor_out=20,
        src_factor_in=2,
        wgt_factor_out=1,
    )
    expected = [
        (
            dst + i * 10 + j,
            [
                src + i * 20 + r * 9 + (j * (1 + stride_2) + t) * 2
                for r in range(1 + more_rows)
                for t in range(columns)
            ],
            wgt + i,
        )
        for i in range(2)
        for dst, src, wgt in zip(*(column.tolist() for column in UOPS), strict=True)
        for j in range(3)
    ]
    rows = depthwise_rows(loop, UOPS, Window(3, 5, 1))
    assert list(zip(rows.dst.tolist(), rows.src.tolist(), rows.wgt.tolist(), strict=True)) == expected
    taps = [
        [r * columns + t, 0, r * 5 + 5 - columns + t]
        for r in range(min(1 + more_rows, 3))
        for t in range(columns)
    ]
    assert (rows.terms.tolist(), rows.shared) == (taps, 1)


def _terms(steps: Steps) -> dict[int, list[tuple[int, int]]]:
    """Return the terms that each accumulator receives, sorted."""
    terms: dict[int, list[tuple[int, int]]] = {}
    for dst, src, wgt in zip(steps.dst.tolist(), steps.src.tolist(), steps.wgt.tolist(), strict=True):
        terms.setdefault(dst, []).append((src, wgt))
    return {dst: sorted(pairs) for dst, pairs in terms.items()}


def _terms_of_products(steps: Steps) -> dict[int, list[tuple[int, int]]]:
    terms = {}
    for part in products(steps):
        for p, o in np.ndindex(part.dst.shape):
            dst = int(part.dst[p, o])
            assert dst not in terms, "an accumulator occurs once"
            terms[dst] = sorted(zip(part.src[p].tolist(), part.wgt[o].tolist(), strict=True))
    return terms


def test_products_have_the_terms_of_the_steps():
    rng = np.random.default_rng(1)
    for _ in range(200):
        count = int(rng.integers(0, 40))
        steps = Steps(*(rng.integers(0, high, count) for high in (6, 4, 3)))
        assert _terms_of_products(steps) == _terms(steps)


def test_a_convolution_is_one_product():
    pixels, kernel, columns = 12, 9, 4
    out, pixel, tap = (axis.reshape(-1) for axis in np.indices((columns, pixels, kernel)))
    steps = Steps(out * pixels + pixel, pixel + tap, out * kernel + tap)
    (whole,) = products(steps)
    assert (whole.dst.shape, whole.src.shape, whole.wgt.shape) == (
        (pixels, columns),
        (pixels, kernel),
        (columns, kernel),
    )
    assert _terms_of_products(steps) == _terms(steps)


def test_levels_run_as_the_steps_in_order():
    rng = np.random.default_rng(2)
    for _ in range(200):
        dst, src = rng.integers(0, 8, (2, int(rng.integers(0, 30))))
        wanted, actual = rng.integers(0, 1000, (1, 8)).repeat(2, axis=0)
        for to, source in zip(dst.tolist(), src.tolist(), strict=True):
            wanted[to] = wanted[to] * 3 + wanted[source]
        groups = levels(dst, src)
        for group in groups:
            assert len(set(dst[group].tolist())) == len(group)
            actual[dst[group]] = actual[dst[group]] * 3 + actual[src[group]]
        assert actual.tolist() == wanted.tolist()
        assert sorted(np.concatenate([*groups, []]).tolist()) == list(range(len(dst)))


def test_the_last_step_to_each_destination():
    assert last_of_each(np.array([3, 1, 3, 2, 1])).tolist() == [False, False, True, True, True]
    assert last_of_each(np.zeros(0, np.int64)).tolist() == []
