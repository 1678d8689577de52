"""The table tells what is proved, how, and which faults are noticed."""

import pytest
from formal.edits import Edit
from formal.obligations import Obligation
from formal.provers import Effort, Method, Outcome, Verdict
from formal.summary import Result, table, together

FAULT = Edit("vdla.hw.queue", "a", "b")
PROVED, REFUTED, OPEN = (Outcome(verdict, 1.25) for verdict in Verdict)


def result(method: Method, outcome: Outcome, *faults: Outcome) -> Result:
    obligation = Obligation("queue", lambda only=None: None, Effort(method, 40), (FAULT,) * len(faults))
    return Result(obligation, 3, outcome, faults)


def test_a_row_names_method_solver_and_faults():
    results = [
        result(Method.INDUCTION, PROVED, REFUTED, PROVED),
        result(Method.BOUNDED, PROVED, REFUTED),
        result(Method.EVERY_INPUT, OPEN, REFUTED),
    ]
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table(results).splitlines()]
    assert lines[2] == ["queue", "3", "any cycles", "ABC pdr", "1.2", "1 of 2"]
    assert lines[3][2:4] == ["40 cycles", "ABC bmc3"]
    assert lines[4][2:4] == ["NOT CLOSED IN TIME", "ABC &cec"]
    assert table(results).endswith("2 of 3 circuits with 9 claims proved; 3 of 4 planted faults refuted")
    assert [outcome.holds for outcome in results] == [False, True, False]


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ((PROVED, PROVED), Verdict.PROVED),
        ((PROVED, REFUTED), Verdict.REFUTED),
        ((OPEN, PROVED), Verdict.OPEN),
    ],
)
def test_cases_are_proved_together(outcomes, verdict):
    assert together(outcomes).verdict is verdict
    assert together(outcomes).seconds == 2.5
