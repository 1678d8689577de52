"""Compile random networks, run them and prove them: the part of `break_compiler.py` that runs in a copy of
the tree with a fault planted in its compiler. Prints a JSON line for each network."""

import json
import sys
import traceback

import numpy as np
from break_streams import FEW, Subject, random_subject, results

from proving.check import proof_of
from vdla.compiler.graph.interpret import interpret
from vdla.hw.spec.errors import VdlaError

FAILED = "failed"
"""Value of "proved" if the compiler failed, or the proof itself."""


def outcome(seed: int) -> dict[str, object] | None:
    """Return whether a network's results are wrong, and whether it is proved; None if it is not a subject."""
    try:
        subject = random_subject(seed)
    except Exception:  # whatever a broken compiler raises
        return {"seed": seed, "changed": False, "proved": FAILED, "difference": traceback.format_exc(-2)}
    if subject is None:
        return None
    try:
        proof = proof_of(subject.plan, subject.lowered, seed=seed)
        proved, difference = proof.proved, proof.difference
    except VdlaError as error:  # of the passes for the target, which a fault may break, too
        proved, difference = False, str(error)
    return {"seed": seed, "changed": is_wrong(subject), "proved": proved, "difference": difference}


def is_wrong(subject: Subject) -> bool:
    """Whether a device disagrees with the integer operators on some inputs."""
    for inputs in subject.inputs(FEW):
        expected = [array.tobytes() for array in interpret(subject.lowered, inputs).values()]
        if results(subject.plan, inputs) != expected:
            return True
    return False


def main() -> None:
    """Print the outcomes of the seeds on the command line."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    np.seterr(all="ignore")
    for seed in map(int, sys.argv[1:]):
        found = outcome(seed)
        if found is not None:
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
