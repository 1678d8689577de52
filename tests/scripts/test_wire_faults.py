"""A few faults of the campaign that damages the wire to a board, and what the campaign has to notice."""

import pytest
import wire_faults
from wire.proxy import Kind

from vdla.runtime.devices.board.driver import Driver


def test_faults_are_named_errors_or_right_answers(tmp_path):
    tally = wire_faults.campaign(8, 3, tmp_path)
    assert sum(tally.outcomes.values()) == 8
    assert {kind for kind, outcome in tally.outcomes if outcome == wire_faults.NAMED} <= {
        Kind.CLOSE,
        Kind.RESET,
    }


def test_a_driver_that_trusts_what_it_wrote_is_caught(tmp_path, monkeypatch):
    monkeypatch.setattr(Driver, "holds", lambda self, address, data: True)
    with pytest.raises(wire_faults.WrongAnswerError, match=r"\d+ bytes differ"):
        wire_faults.campaign(60, 1, tmp_path)
