"""Proofs as text, and the proof of a plan before it is written."""

import time

from vdla.cli._networks import status
from vdla.prove.proof import LayerProof, NotProvedError, Proof
from vdla.runtime.module.plan import Plan


def describe_proof(plan: Plan, proof: Proof, seconds: float, layers: bool) -> str:
    """Return a proof as text.

    Args:
        seconds: duration of the proof.
        layers: list every layer.
    """
    from vdla.prove.axioms import Axiom

    head = (
        f"{plan.name} on {plan.target.name}: {'proved' if proof.proved else 'not proved'} in {seconds:.1f} s"
    )
    rows = [("compared", _compared(proof, len(plan.launches)))]
    if proof.proved:
        rows.append(("bound", f"{proof.bound}: the probability that they differ on some input nevertheless"))
        rows += [("axiom", f"{name}: {Axiom[name].value}") for name in proof.axioms] or [("axioms", "none")]
    else:
        rows.append(("difference", proof.difference))
        if proof.explanation is not None:
            rows.append(("first term", proof.explanation.text))
    rows.append(("seed", str(proof.seed)))
    lines = [head, *(f"  {title:11}{text}" for title, text in rows)]
    return "\n".join([*lines, *(["", _table(proof)] if layers else [])])


def _compared(proof: Proof, launches: int) -> str:
    elements = sum(layer.elements for layer in proof.layers)
    return (
        f"{elements:,} elements of {len(proof.layers)} layer{'s' * (len(proof.layers) != 1)} in "
        f"{launches} launch{'es' * (launches != 1)}"
    )


def _table(proof: Proof) -> str:
    """Return the layers as rows under a head."""
    width = max((len(layer.name) for layer in proof.layers), default=5)
    head = f"{'layer':{width}}  {'operator':20} {'launch':10} {'elements':>12}  result"
    return "\n".join([head, *(_row(layer, width) for layer in proof.layers)])


def _row(layer: LayerProof, width: int) -> str:
    result = "equal" if layer.proved else "DIFFERENT"
    return f"{layer.name:{width}}  {layer.op:20} {layer.launch:10} {layer.elements:12,}  {result}"


def proved(plan: Plan) -> str:
    """Prove a plan against the graphs that it carries; return the proof as text.

    Raises:
        NotProvedError: with the first difference.
    """
    from vdla.prove.compare import prove
    from vdla.prove.graphs import carried_graphs

    began = time.perf_counter()
    with status() as say:
        proof = prove(plan, carried_graphs(plan), progress=say)
    if not proof.proved:
        raise NotProvedError(
            f"{plan.name} is not proved, and no module is written: {proof.difference} (seed {proof.seed}); "
            "compile without --prove to have the module, and report the difference, which is a fault of the "
            "compiler or of the proof"
        )
    return describe_proof(plan, proof, time.perf_counter() - began, layers=False)
