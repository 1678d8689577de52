"""A circuit that was decided is not decided again, unless it, the method or the tools have changed."""

import pytest

pytest.importorskip("pyosys")
from formal import ledger
from formal.ledger import Ledger, LedgerError
from formal.provers import Effort, Method, Outcome, Verdict

EFFORT = Effort(Method.INDUCTION)


@pytest.fixture
def asked(monkeypatch) -> list[str]:
    """Let a prover be a list of what it is asked; the circuit is its verdict."""
    circuits: list[str] = []

    def decide(rtlil: str, effort: Effort) -> Outcome:
        circuits.append(rtlil)
        return Outcome(Verdict[rtlil.split()[0]], 1.5, 3 if rtlil.startswith("REFUTED") else None)

    monkeypatch.setattr(ledger, "decide", decide)
    return circuits


def test_outcomes_are_kept_between_runs(tmp_path, asked):
    for _ in range(2):
        with Ledger(tmp_path / "new" / "journal") as known:
            assert known.decide("PROVED", EFFORT) == Outcome(Verdict.PROVED, 1.5, None)
            assert known.decide("REFUTED", EFFORT) == Outcome(Verdict.REFUTED, 1.5, 3)
    assert asked == ["PROVED", "REFUTED"]


@pytest.mark.parametrize(
    ("circuit", "effort"), [("PROVED b", EFFORT), ("PROVED", Effort(Method.BOUNDED, 4)), ("OPEN", EFFORT)]
)
def test_what_changed_or_was_left_open_is_decided_again(tmp_path, asked, circuit, effort):
    with Ledger(tmp_path / "journal") as known:
        known.decide("PROVED", EFFORT)
        known.decide("OPEN", EFFORT)
        known.decide(circuit, effort)
    assert asked == ["PROVED", "OPEN", circuit]


def test_another_version_of_the_tools_decides_again(tmp_path, asked, monkeypatch):
    with Ledger(tmp_path / "journal") as known:
        known.decide("PROVED", EFFORT)
        monkeypatch.setattr(ledger, "tool_version", lambda: "another")
        known.decide("PROVED", EFFORT)
    assert len(asked) == 2


def test_a_torn_line_is_proved_again_and_a_damaged_one_refused(tmp_path, asked):
    path = tmp_path / "journal"
    with Ledger(path) as known:
        known.decide("PROVED", EFFORT)
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    with Ledger(path) as known:
        known.decide("PROVED", EFFORT)
    assert len(asked) == 2
    path.write_bytes(b"x" + whole)
    with pytest.raises(LedgerError, match="line 1 is damaged; delete the file, and prove again"):
        Ledger(path)
