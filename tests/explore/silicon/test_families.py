"""Cells of a family as resources, by what the vendors say of each cell."""

import pytest

from vdla.explore.silicon.families import FAMILIES, RESOURCES

CELLS = {
    # LFE5U data sheet: a slice has two LUT4 and two flip-flops; a CCU2C is both LUTs of a slice
    ("ecp5", "LUT4"): {"lut": 1},
    ("ecp5", "CCU2C"): {"lut": 2},
    ("ecp5", "TRELLIS_DPR16X4"): {"lut": 4},  # a slice for the data, a slice for its write port
    ("ecp5", "TRELLIS_FF"): {"ff": 1},
    ("ecp5", "MULT18X18D"): {"dsp": 1},
    ("ecp5", "DP16KD"): {"block_ram": 1},
    # UG474 and UG473: LUT RAM of 32 or 64 words takes one LUT for each port; a RAMB18 is half a RAMB36
    ("xc7", "RAM32M"): {"lut": 4},
    ("xc7", "RAM64M"): {"lut": 4},
    ("xc7", "RAM32X1D"): {"lut": 2},
    ("xc7", "RAM64X1D"): {"lut": 2},
    ("xc7", "SRL16E"): {"lut": 1},
    ("xc7", "SRLC32E"): {"lut": 1},
    ("xc7", "$lut"): {"lut": 1},
    ("xc7", "FDRE"): {"ff": 1},
    ("xc7", "FDSE"): {"ff": 1},
    ("xc7", "FDCE"): {"ff": 1},
    ("xc7", "FDPE"): {"ff": 1},
    ("xc7", "DSP48E1"): {"dsp": 1},
    ("xc7", "RAMB36E1"): {"block_ram": 1},
    ("xc7", "RAMB18E1"): {"block_ram": 0.5},
}


@pytest.mark.parametrize(("family", "cell"), CELLS)
def test_a_cell_counts_as_its_resource_as_often_as_it_stands_there(family, cell):
    counted = FAMILIES[family].count({cell: 6, "VCC": 9})
    assert counted == {name: 6 * CELLS[family, cell].get(name, 0) for name in RESOURCES}


def test_no_other_cell_counts():
    known = {
        (family, cell)
        for family, definition in FAMILIES.items()
        for cells in definition.weights.values()
        for cell in cells
    }
    assert known == CELLS.keys()
