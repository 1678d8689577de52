"""Changes of sources last as long as their context, and reach whoever has imported the changed functions."""

import pytest
from formal.edits import Edit, EditError, edited

from vdla.hw import queue
from vdla.hw.queue import is_one_lut_ram
from vdla.hw.spec import numerics
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.numerics import wrap

SMALL = Edit("vdla.hw.queue", "ONE_LUT_RAM = 16", "ONE_LUT_RAM = 2")
WRAP = Edit("vdla.hw.spec.numerics", "value &= (1 << bits) - 1", "value &= 1")
WIDTH = Edit("vdla.hw.spec.config", "return DRAM_BASE_BITS + max(", "return 12 + 0 * max(")


def test_a_changed_function_is_the_same_object():
    with edited(WRAP):
        assert (wrap(7, 8), numerics.wrap(7, 8)) == (1, 1)
    assert wrap(7, 8) == 7


def test_a_changed_number_counts_in_its_module():
    with edited(SMALL):
        assert not is_one_lut_ram(3)
    assert is_one_lut_ram(3)
    assert queue.ONE_LUT_RAM == 16


def test_a_changed_property_counts_for_new_objects():
    with edited(WIDTH):
        assert AcceleratorConfig(name="narrow").address_bits == 8
    assert AcceleratorConfig(name="wide").address_bits > 8


def test_changes_end_with_an_error():
    with pytest.raises(KeyError), edited(WRAP, SMALL):
        raise KeyError
    assert (wrap(7, 8), queue.ONE_LUT_RAM) == (7, 16)


@pytest.mark.parametrize(("old", "times"), [("no such text", 0), ("def ", 12)])
def test_a_text_that_does_not_stand_once_is_refused(old, times):
    with (
        pytest.raises(EditError, match=r"stands \d+ times in vdla.hw.queue; an edit needs a text"),
        edited(Edit("vdla.hw.queue", old, "")),
    ):
        pass
