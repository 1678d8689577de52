"""The grid is what the shipped store holds, and designs are what their names say."""

import re

import pytest

from vdla.explore.silicon.grid import DESIGNS, GRID, SHOWN
from vdla.explore.silicon.store import key_of, read_store
from vdla.hw.components import components
from vdla.hw.spec.presets import PRESETS, SMALL, TINY

STORE = read_store()


@pytest.mark.parametrize("family", STORE.components)
def test_the_store_holds_the_components_of_the_grid_and_no_others(family):
    wanted = {key_of(part) for point in GRID for part in point.components()}
    assert {component.key for component in STORE.components[family]} == wanted, (
        "the grid has changed: run make area"
    )


@pytest.mark.parametrize("family", STORE.designs)
def test_every_design_of_the_store_is_shown(family):
    names = {config.digest: config.name for config in (*SHOWN, *PRESETS.values())}
    assert {key: entry["name"] for key, entry in STORE.designs[family].items()}.items() <= names.items()


def test_a_point_has_the_components_of_its_kinds_or_all():
    whole, *others = GRID
    assert [part.name for part in whole.components()] == [part.name for part in components(whole.config)]
    assert all({part.kind for part in point.components()} == {*point.kinds} for point in others)


NUMBERS = {
    r"(\d+)x(\d+)$": ("block_in", "block_out"),
    r"bus-(\d+)": ("bus_bits",),
    r"batch-(\d+)": ("batch",),
    r"acc-(\d+)": ("acc_bits",),
}
STATED = [
    (config, name, int(number))
    for config in DESIGNS
    for pattern, names in NUMBERS.items()
    if (name_match := re.search(pattern, config.name))
    for name, number in zip(names, name_match.groups(), strict=True)
]


@pytest.mark.parametrize(("config", "name", "number"), STATED, ids=str)
def test_the_numbers_in_the_name_of_a_design_are_its_parameters(config, name, number):
    assert getattr(config, name) == number


@pytest.mark.parametrize("base", [TINY, SMALL], ids=lambda base: base.name)
def test_a_design_named_after_a_preset_differs_from_it(base):
    others = [config for config in DESIGNS if config.name.startswith(f"{base.name}-")]
    assert len(others) >= 2
    assert len({config.digest for config in (base, *others)}) == 1 + len(others)
