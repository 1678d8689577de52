"""Proofs of compiled networks: every launch computes its part of the graph, and so does the plan as a whole.

A proof has two halves. The first interprets each stream over elements (`vdla.prove.machine`) and compares the
result of every layer with the target-level graph (`vdla.prove.reference`); steps on the host are nodes of the
graph. The second compares the target-level graph with the graph of integer operators
(`vdla.prove.graph_equality`).
"""

import secrets
from collections.abc import Callable

from threadpoolctl import threadpool_limits

from vdla.hw.spec.errors import VdlaError
from vdla.prove.domain import Domain
from vdla.prove.explanation import explained
from vdla.prove.graph_equality import difference_of
from vdla.prove.graphs import Graphs
from vdla.prove.launches import StreamProof
from vdla.prove.proof import Proof
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
    with threadpool_limits(1, "blas"):  # threads that compete for a processor cost more than they gain
        return _proof(plan, graphs, seed, progress)


def _proof(plan: Plan, graphs: Graphs, seed: int, progress: Progress) -> Proof:
    domain = Domain(seed)
    streams = StreamProof(domain, plan, graphs.target, progress)
    difference, wrong = "", None
    try:
        streams.run()
        progress("graph of integer operators")
        difference = difference_of(domain, graphs.integers, graphs.target)
    except VdlaError as error:
        difference, wrong = str(error), getattr(error, "wrong", None)
    names = tuple(axiom.name for axiom in domain.axioms)
    layers, probability = tuple(streams.layers), domain.failure_probability
    explanation = None
    if wrong is not None:
        progress("the first wrong term")
        explanation = explained(domain, plan, graphs.target, wrong)
    return Proof(not difference, probability, names, layers, difference, seed, explanation)
