"""Fields of arrays get names that Yosys makes of no bit, and get theirs back."""

import pytest

from vdla.explore.silicon.names import with_marked_indices, with_plain_indices


@pytest.mark.parametrize(
    ("plain", "marked"),
    [
        ("wire [7:0] \\wgt[10][11] ;", "wire [7:0] \\wgt<10><11> ;"),
        ("assign \\wgt$2[0]  = wgt[7:0];", "assign \\wgt$2<0>  = wgt[7:0];"),
        ("assign x = a[1] + \\read[3] [5];", "assign x = a[1] + \\read<3> [5];"),
        ("\\m.unit  unit (.\\rows[2] (\\rows[2] ));", "\\m.unit  unit (.\\rows<2> (\\rows<2> ));"),
        ("assign y = a[3] < 4;", "assign y = a[3] < 4;"),
    ],
)
def test_only_names_of_fields_are_marked(plain, marked):
    assert with_marked_indices(plain) == marked
    assert with_plain_indices(marked) == plain


def test_names_that_synthesis_derives_get_their_brackets_back():
    assert with_plain_indices('"a<1><3>_TRELLIS_FF_Q_5": 1') == '"a[1][3]_TRELLIS_FF_Q_5": 1'
