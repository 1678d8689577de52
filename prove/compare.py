"""Proofs of compiled networks: every launch computes its part of the graph, and so does the plan as a whole.

A proof has two halves. The first interprets each stream over elements (`vdla.prove.machine`) and compares the
result of every layer with the target-level graph (`vdla.prove.reference`); steps on the host are those of the
graph. The second compares the outputs of the target-level graph with those of the graph of integer operators.
"""

import secrets
from collections.abc import Callable, Mapping

import numpy as np

from vdla.hw.spec.errors import VdlaError
from vdla.prove.domain import Domain
from vdla.prove.elements import Elements, equal
from vdla.prove.graphs import Graphs
from vdla.prove.launches import DifferenceError, StreamProof
from vdla.prove.proof import Proof
from vdla.prove.reference import evaluate
from vdla.runtime.module.plan import Plan

Progress = Callable[[str], None]
SEED_BITS = 64


def prove(
    plan: Plan, graphs: Graphs, *, seed: int | None = None, progress: Progress = lambda text: None
) -> Proof:
    """Prove that a plan computes its graph of integer operators, for every input.

    Args:
        plan: the compiled network.
        graphs: graph of integer operators, and the graph that the plan was made of.
        seed: of the secret point; None: from the operating system.
        progress: called with a text for each step of the work.

    Returns:
        the proof; where `proved` is false, its `difference` says why. An unsafe stream is a difference, too.
    """
    seed = secrets.randbits(SEED_BITS) if seed is None else seed
    domain = Domain(seed)
    streams = StreamProof(domain, plan, graphs.target, progress)
    difference = ""
    try:
        streams.run()
        progress("graph of integer operators")
        _compare_outputs(streams.outputs(), evaluate(domain, graphs.integers))
    except VdlaError as error:
        difference = str(error)
    names = tuple(axiom.name for axiom in domain.axioms)
    layers = tuple(streams.layers)
    return Proof(not difference, domain.failure_probability, names, layers, difference, seed)


def _compare_outputs(found: Mapping[str, Elements], expected: Mapping[str, Elements]) -> None:
    """Compare the outputs of the target-level graph with those of the graph of integer operators.

    Raises:
        DifferenceError: naming the first element that differs.
    """
    for name, value in expected.items():
        wrong = np.flatnonzero(~equal(found[name].reshape(-1), value.reshape(-1)))
        if wrong.size:
            place = tuple(map(int, np.unravel_index(wrong[0], value.shape)))
            raise DifferenceError(
                f"output {name}, element {list(place)}: the passes for the target have changed it "
                f"({wrong.size:,} of {value.size:,} elements)"
            )
