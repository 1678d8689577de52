"""Channelwise affine operators after a product, which its requantisation absorbs: batch normalisation,
scales, shifts and biases."""

from vdla.compiler.graph.affine import AffineChain, ChannelAffine, affine_of
from vdla.compiler.graph.conversions import Conversions
from vdla.compiler.graph.integer_forms.site import multiplies_activations
from vdla.compiler.graph.nodes import Node

IMAGE_RANK = 4
PRODUCTS = {
    "Conv": 1,
    "ConvTranspose": 1,
    "Gemm": -1,
    "MatMul": -1,
}  # with the axis of output channels


def affine_chain_of(conversions: Conversions, node: Node) -> AffineChain | None:
    """Return the chain of channelwise affine operators that ends with `node`; None if there is no such chain.

    The chain begins after a DequantizeLinear, or after a product of quantised operands without other readers.
    """
    return next((chain for axis in (1, -1) if (chain := _along(conversions, node, axis)) is not None), None)


def _multiplies(conversions: Conversions, node: Node) -> bool:
    """Whether a product has quantised constant weights, or two quantised operands."""
    return conversions.constants(node.inputs[1]) is not None or (
        multiplies_activations(conversions, node) and all(map(conversions.is_dequantised, node.inputs))
    )


def _along(conversions: Conversions, node: Node, axis: int) -> AffineChain | None:
    """Return the chain along an axis that ends with `node`. Results for earlier nodes are cached, so each
    node is visited once."""
    later: list[tuple[Node, ChannelAffine]] = []
    current: Node | None = node
    while current is not None and (current.result, axis) not in conversions.affine_chains:
        change = affine_of(conversions.graph, current, axis)
        if change is None:
            conversions.affine_chains[current.result, axis] = None
            break
        later.append((current, change))
        current = _change_before(conversions, change, axis)
    chain = None if current is None else conversions.affine_chains[current.result, axis]
    for current, change in reversed(later):
        begun = _begun(conversions, current, change, axis)
        chain = begun or (None if chain is None else chain._replace(affine=change.after(chain.affine)))
        conversions.affine_chains[current.result, axis] = chain
    return chain


def _change_before(conversions: Conversions, change: ChannelAffine, axis: int) -> Node | None:
    """Return the operator before a change if it may belong to the same chain; None at the start of a
    chain."""
    before = conversions.makers.get(change.x)
    if before is None or before.op == "DequantizeLinear" or not _is_read_once(conversions, change.x):
        return None
    return None if PRODUCTS.get(before.op) == axis and _multiplies(conversions, before) else before


def _begun(conversions: Conversions, node: Node, change: ChannelAffine, axis: int) -> AffineChain | None:
    """Return the chain that starts with `node`, after a product or a DequantizeLinear; None if it starts
    none."""
    before = conversions.makers.get(change.x)
    if before is None:
        return None
    if before.op == "DequantizeLinear":
        alone = axis == -1 or len(conversions.graph.types[change.x].shape) == IMAGE_RANK
        return AffineChain(node, change, alone, last=axis == -1) if alone else None
    if not _is_read_once(conversions, change.x):
        return None
    product = PRODUCTS.get(before.op) == axis and _multiplies(conversions, before)
    return AffineChain(before, change, alone=False, last=axis == -1) if product else None


def _is_read_once(conversions: Conversions, name: str) -> bool:
    return len(conversions.readers[name]) == 1 and name not in conversions.graph.outputs
