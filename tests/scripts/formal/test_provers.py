"""What ABC prints is understood; what it has never printed is no verdict."""

import pytest
from formal.provers import Effort, Method, Verdict, understood

from vdla.hw.spec.errors import ToolError

PDR, BMC, CEC = (Effort(method, 16) for method in Method)


@pytest.mark.parametrize(
    ("effort", "output", "verdict", "cycle"),
    [
        (PDR, "Property proved.  Time =     0.23 sec", Verdict.PROVED, None),
        (PDR, 'Output 0 of miter "design" was asserted in frame 5.  Time = 0.1 sec', Verdict.REFUTED, 5),
        (PDR, "Reached timeout (300 seconds) in frame 12.", Verdict.OPEN, None),
        (PDR, "Property UNDECIDED.  Time =   300.00 sec", Verdict.OPEN, None),
        (
            BMC,
            "No output asserted in 16 frames. Resource limit reached (conf limit 0).",
            Verdict.PROVED,
            None,
        ),
        (BMC, "No output asserted in 16 frames. Resource limit reached (timeout 5 sec).", Verdict.OPEN, None),
        (BMC, "No output asserted in 14 frames. Resource limit reached (timeout 5 sec).", Verdict.OPEN, None),
        (CEC, "Networks are equivalent.  Time =     0.00 sec", Verdict.PROVED, None),
        (CEC, "Networks are NOT EQUIVALENT.  Time =     0.00 sec", Verdict.REFUTED, 0),
        (CEC, "Networks are UNDECIDED.", Verdict.OPEN, None),
        (CEC, "Timed out after 22 seconds.", Verdict.OPEN, None),
    ],
)
def test_what_abc_prints_is_understood(effort, output, verdict, cycle):
    assert understood(f"Warning: The network has no constraints.\n{output}\n", effort) == (verdict, cycle)


@pytest.mark.parametrize(
    ("effort", "output"),
    [(BMC, "No output asserted in 14 frames."), (PDR, "Networks are equivalent."), (CEC, "")],
)
def test_another_text_is_no_verdict(effort, output):
    with pytest.raises(ToolError, match="ABC says nothing known"):
        understood(output, effort)
