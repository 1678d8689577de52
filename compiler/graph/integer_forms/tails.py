"""Changes of channels behind an operator, which go into its requantisation: batch normalisation, scales,
shifts, biases."""

from vdla.compiler.graph.affine import ChannelAffine, Tail, affine_of
from vdla.compiler.graph.conversions import Conversions
from vdla.compiler.graph.integer_forms.site import multiplies_activations
from vdla.compiler.graph.nodes import Node

IMAGE_RANK = 4
PRODUCTS = {"Conv": 1, "ConvTranspose": 1, "Gemm": -1, "MatMul": -1}  # with the axis of output channels


def tail_of(found: Conversions, node: Node) -> Tail | None:
    """Return the changes that end with `node`, behind a product of quantised operands that nothing else reads
    or a DequantizeLinear; None where there are none."""
    return next((tail for axis in (1, -1) if (tail := _along(found, node, axis)) is not None), None)


def _multiplies(found: Conversions, node: Node) -> bool:
    """Whether a product is one with quantised constants, or of two quantised tensors."""
    return found.constants(node.inputs[1]) is not None or (
        multiplies_activations(found, node) and all(map(found.is_dequantised, node.inputs))
    )


def _along(found: Conversions, node: Node, axis: int) -> Tail | None:
    """Return the changes along an axis that end with `node`; those before it are looked at once."""
    later: list[tuple[Node, ChannelAffine]] = []
    one: Node | None = node
    while one is not None and (one.outputs[0], axis) not in found.tails:
        change = affine_of(found.graph, one, axis)
        if change is None:
            found.tails[one.outputs[0], axis] = None
            break
        later.append((one, change))
        one = _change_before(found, change, axis)
    tail = None if one is None else found.tails[one.outputs[0], axis]
    for one, change in reversed(later):
        begun = _begun(found, one, change, axis)
        tail = begun or (None if tail is None else tail._replace(affine=change.after(tail.affine)))
        found.tails[one.outputs[0], axis] = tail
    return tail


def _change_before(found: Conversions, change: ChannelAffine, axis: int) -> Node | None:
    """Return the operator before a change that may be a change itself; None where changes begin or end."""
    before = found.makers.get(change.x)
    if before is None or before.op == "DequantizeLinear" or not _is_read_once(found, change.x):
        return None
    return None if PRODUCTS.get(before.op) == axis and _multiplies(found, before) else before


def _begun(found: Conversions, node: Node, change: ChannelAffine, axis: int) -> Tail | None:
    """Return the changes that a node begins, behind a product or a DequantizeLinear."""
    before = found.makers.get(change.x)
    if before is None:
        return None
    if before.op == "DequantizeLinear":
        alone = axis == -1 or len(found.graph.types[change.x].shape) == IMAGE_RANK
        return Tail(node, change, alone, last=axis == -1) if alone else None
    if not _is_read_once(found, change.x):
        return None
    product = PRODUCTS.get(before.op) == axis and _multiplies(found, before)
    return Tail(before, change, alone=False, last=axis == -1) if product else None


def _is_read_once(found: Conversions, name: str) -> bool:
    return len(found.readers[name]) == 1 and name not in found.graph.outputs
