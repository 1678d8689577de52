"""Sizes of components: exact for stored components, else by a linear model and the rules of block RAM."""

import pytest

from vdla.explore.silicon.model import FamilyModel, blocks, memory_features
from vdla.explore.silicon.store import Measured, memories_of
from vdla.hw.components import Component, MemoryShape
from vdla.hw.spec.errors import ToolError


def measured(width: int, depth: int, lut: float, *memories: MemoryShape) -> Measured:
    features = {"width": float(width), "depth": float(depth)}
    resources = {"lut": lut, "ff": 3.0, "dsp": 2.0 * width, "block_ram": 0.0}
    return Measured("unit", features, memories_of(component(width, depth, *memories)), "", resources)


def component(width: int, depth: int, *memories: MemoryShape) -> Component:
    return Component("a", "unit", {"width": width, "depth": depth}, list, memories)


STORED = tuple(
    measured(width, depth, 10 + 5 * width + depth / 4) for width, depth in ((1, 4), (2, 4), (2, 8), (4, 16))
)


def test_a_stored_component_has_its_stored_size():
    odd = measured(3, 4, 777.0)
    assert FamilyModel("ecp5", (*STORED, odd)).size(component(3, 4)) == odd.resources


def test_another_has_the_size_of_the_linear_model():
    size = FamilyModel("ecp5", STORED).size(component(8, 100))
    assert size["lut"] == pytest.approx(10 + 5 * 8 + 100 / 4)
    assert size["dsp"] == 16


@pytest.mark.parametrize("family", ["ecp5", "xc7"])
def test_the_memories_of_a_component_count_by_what_the_family_makes_of_them(family):
    def component_of(shape: MemoryShape) -> Measured:
        """Return a component that takes 10 LUTs, and 2 for each of LUT RAM."""
        features = memory_features(family, [shape])
        return measured(1, 4, 10 + 2 * features["lut_ram"], shape)

    stored = [component_of(MemoryShape(depth, 24)) for depth in (16, 48, 512)]
    model = FamilyModel(family, stored)
    for shape in (MemoryShape(16, 48), MemoryShape(2048, 36)):
        size = model.size(component(1, 4, shape))
        assert size["lut"] == pytest.approx(component_of(shape).resources["lut"])
        assert size["block_ram"] == blocks(family, shape)


def test_no_resource_is_negative():
    falling = (measured(1, 4, 30), measured(2, 4, 10))
    assert FamilyModel("ecp5", falling).size(component(5, 4))["lut"] == 0


def test_a_kind_that_was_never_measured_is_refused_with_the_cure():
    with pytest.raises(ToolError, match=r"no unit of this hardware has been synthesised for xc7; make area"):
        FamilyModel("xc7", ()).size(component(1, 1))


@pytest.mark.parametrize(
    ("family", "shape", "lut_ram"),
    [
        ("ecp5", MemoryShape(16, 128), 128),
        ("ecp5", MemoryShape(32, 128), 2 * 128 + 128),
        ("ecp5", MemoryShape(512, 128), 0),
        ("xc7", MemoryShape(16, 128), 88),
        ("xc7", MemoryShape(64, 128), 176),
        ("xc7", MemoryShape(128, 128), 0),
    ],
)
def test_what_luts_depend_on_in_a_memory_follows_from_its_shape(family, shape, lut_ram):
    assert memory_features(family, [shape]) == {"lut_ram": lut_ram}
    assert memory_features(family, [shape, shape]) == {"lut_ram": 2 * lut_ram}


@pytest.mark.parametrize(
    ("depth", "bits", "lanes", "expected"),
    [
        (512, 36, 1, 1),
        (512, 32, 1, 1),
        (1024, 32, 1, 2),
        (1024, 64, 1, 4),
        (512, 64, 1, 2),
        (2048, 64, 1, 8),
        (256, 128, 2, 4),
        (256, 128, 1, 4),
        (16384, 1, 1, 1),
        (16, 128, 1, 0),
        (32, 128, 1, 0),
        (64, 128, 1, 4),
        (67, 73, 1, 3),
        (48, 128, 1, 4),
        (64, 73, 1, 3),
        (35, 145, 1, 0),
        (512, 32, 2, 1),
    ],
)
def test_block_ram_of_ecp5_follows_from_the_shape_of_the_memory(depth, bits, lanes, expected):
    assert blocks("ecp5", MemoryShape(depth, bits, lanes)) == expected


@pytest.mark.parametrize(
    ("depth", "bits", "lanes", "expected"),
    [
        (64, 128, 1, 0),
        (67, 73, 1, 0),
        (128, 128, 1, 2),
        (512, 32, 1, 0.5),
        (512, 128, 2, 2),
        (512, 256, 4, 4),
    ],
)
def test_blocks_of_xc7_are_those_that_were_measured(depth, bits, lanes, expected):
    assert blocks("xc7", MemoryShape(depth, bits, lanes)) == expected
