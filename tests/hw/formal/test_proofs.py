"""The quick proofs hold, and each notices a planted fault; `make formal` runs all of them with all faults."""

import pytest
from amaranth.hdl import Module

pytest.importorskip("pyosys")
from formal.obligations import OBLIGATIONS, Obligation
from formal.provers import TOP, Effort, Method, Verdict, decide

from vdla.hw.formal.tokens import TokenProof
from vdla.hw.rtlil import rtlil_of

QUICK = (
    "queue of 3 (LUT RAM)",
    "queue of 2 (register)",
    "queue of 3 (register, block RAM)",
    "token counter of 2",
    "AXI4-Lite slave",
    "division of rows into bursts",
    "rows of elements",
    "ALU, SHR, 32 bits, 2 stages",
    "ALU, MIN, 32 bits, 1 stages",
)
KNOWN = {obligation.name: obligation for obligation in OBLIGATIONS}


@pytest.fixture(params=QUICK)
def obligation(request: pytest.FixtureRequest) -> Obligation:
    return KNOWN[request.param]


def test_a_quick_proof_closes(obligation):
    assert decide(obligation.rtlil(None), obligation.effort).verdict is Verdict.PROVED


def test_a_planted_fault_is_refuted(obligation):
    outcome = decide(obligation.rtlil(None, obligation.faults[0]), obligation.fault_effort())
    assert outcome.verdict is Verdict.REFUTED


def test_every_obligation_has_claims_and_faults():
    assert len(KNOWN) == len(OBLIGATIONS)
    assert [proof.name for proof in OBLIGATIONS if not proof.faults] == []


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [("level: items held", Verdict.PROVED), ("items: in order, unchanged", Verdict.REFUTED)],
)
def test_one_claim_can_be_asserted_alone(claim, verdict):
    queue = KNOWN["queue of 3 (register, block RAM)"]
    newest = queue.faults[1]  # alters items, and not how many there are
    assert decide(queue.rtlil(None, newest, only=claim), Effort(Method.INDUCTION)).verdict is verdict


class Careless(TokenProof):
    """Units that push what they have not reserved."""

    def build(self, m: Module) -> None:
        super().build(m)
        del self.assumptions["push: only a reserved place"]


def test_a_proof_without_an_assumption_of_its_surroundings_fails():
    proof = Careless(2)
    text = rtlil_of(proof, TOP, proof.ports).text
    assert decide(text, Effort(Method.BOUNDED, 10)).verdict is Verdict.REFUTED
