"""What a proof says of a compiled network, for campaigns that compile many."""

from vdla.compiler.graph.nodes import Graph
from vdla.prove.compare import prove
from vdla.prove.graphs import graphs_for
from vdla.prove.proof import Proof
from vdla.runtime.module.plan import Plan

MOST_PROBABLE = 2.0**-60
"""The failure probability that every proof has to stay below."""


def proof_of(plan: Plan, lowered: Graph, seed: int | None = None) -> Proof:
    """Return the proof of a plan against the graph of integer operators that it was compiled from."""
    return prove(plan, graphs_for(lowered, plan.target), seed=seed)


def proof_faults(plan: Plan, lowered: Graph) -> list[str]:
    """Return what is wrong with the proof of a plan: nothing, unless the compiler or the proof is."""
    proof = proof_of(plan, lowered)
    if not proof.proved:
        return [f"not proved (seed {proof.seed}): {proof.difference}"]
    if proof.failure_probability >= MOST_PROBABLE:
        return [f"proved with a failure probability of {proof.bound} only (seed {proof.seed})"]
    return []
