"""Points as numbers: places, what is taken on chip, and which points are the same."""

import numpy as np
import pytest
from generators.expressions import convolution

from vdla.compiler.codegen.derived.boxes import Relations
from vdla.compiler.codegen.derived.kernels import kernels_of
from vdla.compiler.codegen.derived.knobs import knobs_of
from vdla.compiler.codegen.derived.table import Table
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import MemoryType

PLAIN = {
    "tile o": 1,
    "tile y": 2,
    "tile x": 2,
    "chunk Y.ci": 1,
    "chunk Y.dy": 3,
    "chunk Y.dx": 3,
    "order": "n g o y x",
    "threads": 1,
    "over": "o",
    "walk Y": "within",
    "place XP": "chunk",
    "place W_weight": "chunk",
    "place P_parameters": "first",
}


@pytest.fixture(scope="module")
def parts():
    """A convolution of 8 to 12 channels with 4x4 results."""
    (kernel,) = kernels_of(convolution(TINY).output, TINY)
    relations = Relations(kernel)
    return kernel, relations, knobs_of(kernel, relations)


def table(parts, **changes):
    kernel, relations, knobs = parts
    values = PLAIN | {name.replace("_", " ", 1): value for name, value in changes.items()}
    row = [knob.values.index(values[knob.name]) for knob in knobs]
    return Table(kernel, relations, knobs, np.array([row]))


def times(found, name):
    return int(found.times(next(stage for stage in found.kernel.stages if stage.name == name))[0])


def test_a_row_has_the_values_of_its_knobs(parts):
    assert table(parts).values(0) == PLAIN


def test_places_say_how_often_a_stage_is_computed(parts):
    tiles, chunks = 3 * 2 * 2, 2
    found = table(parts)
    assert (times(found, "XP"), times(found, "Y"), times(found, "P_parameters")) == (tiles * chunks, tiles, 1)
    reused = table(parts, place_W_weight="reuse")
    assert (times(reused, "W_weight"), int(reused.levels["W_weight"][0])) == (3, 3)
    inputs = table(parts, place_XP="reuse", order="n g y x o")
    assert times(inputs, "XP") == 4


def test_what_is_taken_counts_virtual_threads(parts):
    one, two = table(parts), table(parts, threads=2, over="y")
    assert one.used[MemoryType.WGT][0] == 9
    assert two.used[MemoryType.WGT][0] == 18
    assert one.used[MemoryType.ACC][0] == 4 + 3 * 4  # sums, and all parameters
    assert two.used[MemoryType.ACC][0] == 8 + 3 * 4


def test_a_thread_without_a_tile_is_illegal(parts):
    assert table(parts, threads=2, over="y").legal()[0]
    assert not table(parts, threads=3, over="y").legal()[0]


def test_what_does_not_fit_is_illegal(parts):
    """All weights are 3 * 2 * 9 elements of 256 that fit, all inputs 2 * 9 * 9 of 1024."""
    knobs = parts[2]
    found = table(parts, place_W_weight="first", place_XP="first")
    assert found.legal()[0]
    assert found.used[MemoryType.WGT][0] == 54
    narrow = TINY.with_changes(name="narrow", wgt_buffer_bytes=512)
    (small,) = kernels_of(convolution(narrow).output, narrow)
    assert not Table(small, Relations(small), knobs, found.rows).legal()[0]


def canonical(parts, **changes):
    found = table(parts, **changes)
    return found.of(found.canonical()).values(0)


def test_the_same_programs_are_one_point(parts):
    assert canonical(parts, over="x") == PLAIN  # of one thread
    whole = {"tile_y": 4, "tile_x": 4}
    assert canonical(parts, **whole, order="n g y x o")["order"] == "n g o y x"
    assert canonical(parts, **whole, place_W_weight="reuse")["place W_weight"] == "tile"


def test_different_programs_stay_apart(parts):
    assert canonical(parts, order="n g y x o")["order"] == "n g y x o"
    assert canonical(parts, place_W_weight="reuse")["place W_weight"] == "reuse"
    assert canonical(parts, threads=2, over="x")["over"] == "x"
