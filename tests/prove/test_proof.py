"""Results of proofs as JSON and as a power of two."""

import json
from dataclasses import replace

import pytest

from vdla.prove.proof import Explanation, LayerProof, Proof

PROOF = Proof(True, 2.0**-70 * 1.5, ("sum",), (LayerProof("c", "Int8Conv", "launch0", 16, True),), "", 7)


def test_a_proof_as_json_has_all_its_parts():
    assert json.loads(json.dumps(PROOF.to_json())) == {
        "proved": True,
        "failure_probability": 2.0**-70 * 1.5,
        "axioms": ["sum"],
        "layers": [{"name": "c", "op": "Int8Conv", "launch": "launch0", "elements": 16, "proved": True}],
        "difference": "",
        "seed": 7,
        "explanation": None,
    }


def test_an_explanation_is_part_of_the_json():
    explanation = Explanation("weight", 3, None, "text")
    decoded = json.loads(json.dumps(replace(PROOF, proved=False, explanation=explanation).to_json()))
    assert decoded["explanation"] == {"kind": "weight", "instruction": 3, "loaded_by": None, "text": "text"}


@pytest.mark.parametrize(
    ("probability", "text"), [(2.0**-70, "2^-70"), (2.0**-70 * 1.5, "2^-69"), (0.0, "0"), (1.0, "2^0")]
)
def test_a_bound_is_rounded_up_to_a_power_of_two(probability, text):
    assert Proof(True, probability, (), (), "", 0).bound == text
