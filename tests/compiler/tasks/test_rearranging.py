"""Weights that are made of activations: what fits, and what the loop programs mean."""

import numpy as np
import pytest

from vdla.compiler.codegen.space import space_of
from vdla.compiler.ir.interpret import interpret
from vdla.compiler.rules import Unfit
from vdla.compiler.tasks.base import Choice, PlaneTile
from vdla.compiler.tasks.program_text import one_hot_inputs
from vdla.compiler.tasks.rearranging import RowsTask, TurnTask
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("blocks", "rows", "threads"), [(2, 8, 2), (3, 5, 1), (2, 128, 2), (2, 300, 2), (1, 257, 1), (1, 512, 1)]
)
def test_rows_become_weights_and_zeros_fill_the_last_block(blocks, rows, threads):
    """Of rows in one tile, in several, and in whole tiles of 128 or 256."""
    b = RNG.integers(-128, 128, (blocks, rows, 1, 4), np.int8)
    high = -(-rows // 4)
    result = np.full((high, blocks, 4, 1, 4), 99, np.int8)
    interpret(
        RowsTask(blocks, rows).program(Choice(threads), TINY),
        {"B": b, "U": np.eye(4, dtype=np.int8)[None], "D": result},
    )
    whole = np.concatenate([b, np.zeros((blocks, high * 4 - rows, 1, 4), np.int8)], 1)
    assert np.array_equal(result, whole.reshape(blocks, high, 4, 1, 4).swapaxes(0, 1))


@pytest.mark.parametrize(("rows", "columns", "threads"), [(4, 3, 2), (3, 2, 1), (5, 64, 2)])
def test_blocks_of_weights_are_turned(rows, columns, threads):
    b = RNG.integers(-128, 128, (rows, columns, 4, 4), np.int8)
    result = np.full((columns, rows, 4, 1, 4), 99, np.int8)
    interpret(
        TurnTask(rows, columns).program(Choice(threads), TINY),
        {"B": b, "U": one_hot_inputs(TINY), "D": result},
    )
    assert np.array_equal(result[:, :, :, 0], b.transpose(1, 0, 3, 2))


def test_what_stands_between_rows_of_blocks_stays():
    rows = RNG.integers(-128, 128, (2, 8, 1, 4), np.int8)
    weights = RNG.integers(-128, 128, (2, 3, 4, 4), np.int8)
    result, turned = np.full((2, 5, 4, 1, 4), 99, np.int8), np.full((3, 5, 4, 1, 4), 99, np.int8)
    unit = np.eye(4, dtype=np.int8)[None]
    interpret(RowsTask(2, 8, 5).program(Choice(1), TINY), {"B": rows, "U": unit, "D": result})
    interpret(
        TurnTask(2, 3, 5).program(Choice(1), TINY),
        {"B": weights, "U": one_hot_inputs(TINY), "D": turned},
    )
    assert np.array_equal(result[:, :2], rows.reshape(2, 2, 4, 1, 4).swapaxes(0, 1))
    assert np.array_equal(turned[:, :2, :, 0], weights.transpose(1, 0, 3, 2))
    assert (result[:, 2:] == 99).all()
    assert (turned[:, 2:] == 99).all()


def test_tiles_fit_the_memories():
    assert RowsTask(2, 9).tile(DEFAULT, 2) == 512
    assert RowsTask(2, 9).tile(TINY, 2) % TINY.block_out == 0
    assert TurnTask(13, 4).tile(DEFAULT, 1) == PlaneTile(13, 4)
    assert TurnTask(13, 4).tile(DEFAULT, 2) == PlaneTile(1, 2)


def test_what_does_not_fit_has_no_choice():
    target = Target(TINY.with_changes(inp_buffer_bytes=8))
    for task in (RowsTask(2, 9), TurnTask(3, 3)):
        assert isinstance(space_of(task, target), Unfit)
    assert space_of(RowsTask(3, 9), Target(DEFAULT)).threads == 1
    assert space_of(RowsTask(4, 9), Target(DEFAULT)).threads == 2
