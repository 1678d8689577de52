"""Folds affine changes of channels, by constant factors and shifts, into the product before them.

Batch normalisation, and Add, Sub, Mul or Div with a constant for each channel, all have the form `x * factors
+ shifts` (`vdla.compiler.graph.affine`).

| rule | rewrite |
|---|---|
| `fold_into_product` | `Mul(Conv(x, w, b), g)` -> `Conv(x, w g, b g)`; also ConvTranspose, Gemm, MatMul |
| `change_to_convolution` | `Mul(x, g)` of an image -> depthwise `Conv(x, g)`, which has an integer form |
| `scale_after_product` | `MatMul(Mul(q, c), k)` of two activations -> `Mul(MatMul(q, k), c)` |

Quantisation then rounds only once. A change that is equal for all channels is an elementwise function, which
becomes a table or part of a requantisation. It becomes a convolution only after a convolution, or at an input
of the network.

Source: Jacob et al., CVPR 2018, section 3.2.
"""

from dataclasses import replace

import numpy as np

from vdla.compiler.graph.affine import AFFINE, ChannelAffine, affine_of, factor_of
from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.integer_forms.prerequisites import SPACE, VOLUME_RANK
from vdla.compiler.graph.nodes import REARRANGING, Attribute, Node
from vdla.compiler.graph.quantise_weights import is_quantisable_product, product_parts, without_factors
from vdla.compiler.graph.rules import Rewriter, RewriteRule, Rules
from vdla.runtime.layout import IMAGE_RANK

CHANNEL_CONSTANT = (
    "a constant for each channel of an image, which becomes a depthwise Conv or is folded into the Conv "
    "before"
)
CHANNELS, COLUMNS = 1, -1  # axes of channels: of images, and of matrices
CONVERTED = ("Add", "BatchNormalization", "Mul")
CONVOLUTIONS, MATRIX_PRODUCTS = ("Conv", "ConvTranspose"), ("Gemm", "MatMul")
SHIFTS = ("Add", "Sub")


def _array(at: Rewriter, wish: str, values: np.ndarray) -> str:
    """Add a float32 constant; return its name."""
    return at.constant(wish, np.ascontiguousarray(values, np.float32))


def _fold_into_product(at: Rewriter, node: Node) -> None:
    """A change of the channels of a product with constant weights becomes part of its weights and bias."""
    for axis, ops in ((CHANNELS, CONVOLUTIONS), (COLUMNS, MATRIX_PRODUCTS)):
        change = affine_of(at, node, axis)
        if change is None:
            continue
        if axis == COLUMNS:
            change = _with_shifts_before(at, change)
        product = at.maker(change.x, *ops)
        if product is None or not is_quantisable_product(at, product):
            continue
        if not at.is_read_once(change.x):
            at.missed(node, f"another node reads the result of {product}")
        elif axis == CHANNELS:
            _fold_into_convolution(at, node, product, change)
        elif product.op == "Gemm" or node.op not in SHIFTS:
            _fold_into_matrix_product(at, node, product, change)
        return


def _with_shifts_before(at: DefUse, change: ChannelAffine) -> ChannelAffine:
    """Return a change of columns combined with the constant additions before it, for example the bias of a
    MatMul."""
    while (shift := at.maker(change.x, *SHIFTS)) is not None and at.is_read_once(change.x):
        before = affine_of(at, shift, COLUMNS)
        if before is None:
            break
        change = change.after(before)
    return change


def _fold_into_convolution(at: Rewriter, node: Node, product: Node, change: ChannelAffine) -> None:
    (out,) = node.outputs
    weights = at.constants[product.inputs[1]]
    name = product.inputs[2] if len(product.inputs) > 2 else ""
    bias = at.constants[name].astype(np.float64) if name else 0.0
    names = (
        _array(at, f"{out}_weight", weights * _along_outputs(product, change.factors, weights)),
        _array(at, f"{out}_bias", bias * change.factors + change.shifts),
    )
    at.replace(node, [replace(product, inputs=(product.inputs[0], *names), outputs=(out,))])


def _along_outputs(product: Node, factors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the factors of the output channels in a shape that broadcasts over the weights.

    Weights of ConvTranspose are [channels, outputs of a group, kernel...], so each input channel has the
    factors of its group.
    """
    spatial = [1] * (weights.ndim - 2)
    if product.op == "Conv":
        return factors.reshape(-1, 1, *spatial)
    group, (channels, outputs) = product.integer("group"), weights.shape[:2]
    repeated = np.repeat(factors.reshape(group, outputs), channels // group, axis=0)
    return repeated.reshape(channels, outputs, *spatial)


def _fold_into_matrix_product(at: Rewriter, node: Node, product: Node, change: ChannelAffine) -> None:
    (out,), (weights, axis, bias) = node.outputs, product_parts(at, product)
    shifts = change.shifts + (0 if bias is None else bias * change.factors)
    scaled = weights * (change.factors if axis else change.factors[:, None])
    names = [product.inputs[0], _array(at, f"{out}_weights", scaled)]
    if product.op == "Gemm":
        names.append(_array(at, f"{out}_bias", shifts))
        at.replace(node, [replace(without_factors(product), inputs=tuple(names), outputs=(out,))])
        return
    sums = at.value(f"{out}_product", at.types[out]) if shifts.any() else out
    new = [replace(product, inputs=tuple(names), outputs=(sums,))]
    if sums != out:
        new.append(Node("Add", (sums, _array(at, f"{out}_bias", shifts)), (out,), {}, node.name))
    at.replace(node, new)


def _change_to_convolution(at: Rewriter, node: Node) -> None:
    """A change of the channels of an image or volume becomes a depthwise convolution of single pixels."""
    rank = len(at.types[node.result].shape)
    if rank not in (IMAGE_RANK, VOLUME_RANK):
        return
    change = affine_of(at, node, CHANNELS)
    if change is None:
        return
    after_convolution = at.maker(change.x, "Conv") is not None and at.is_read_once(change.x)
    if change.is_uniform and change.x not in at.graph.inputs and not after_convolution:
        at.missed(node, "it changes all channels alike, so it becomes a table or a requantisation")
        return
    (out,), unit_extents = node.outputs, (1,) * (rank - SPACE)
    names = (
        _array(at, f"{out}_weight", change.factors.reshape(-1, 1, *unit_extents)),
        _array(at, f"{out}_bias", change.shifts),
    )
    attributes: dict[str, Attribute] = {
        "dilations": unit_extents,
        "group": len(change.factors),
        "pads": (0, 0) * len(unit_extents),
        "strides": unit_extents,
    }
    at.replace(node, [Node("Conv", (change.x, *names), (out,), attributes, node.name)])


def _scale_after_product(at: Rewriter, node: Node) -> None:
    """A constant factor of an operand of a product of two activations becomes a factor of the product.

    After the product the factor becomes part of the requantisation. Before it, as attention is exported,
    quantisation would round once more. Operators that only move elements may lie between.
    """
    (out,) = node.outputs
    if any(name in at.constants for name in node.inputs) or at.types[out].dtype != "float32":
        return
    total = 1.0
    for name in node.inputs:
        while (maker := at.maker(name)) is not None and at.is_read_once(name):
            scaled = factor_of(at, maker)
            if scaled is None and maker.op not in REARRANGING:
                break
            if scaled is not None:
                total *= scaled[1]
                at.read_instead(name, scaled[0])
            name = maker.inputs[0] if scaled is None else scaled[0]
    if total == 1.0:
        return
    product = at.makers[out]
    sums = at.value(f"{out}_sums", at.types[out])
    factor = at.constant(f"{out}_factor", np.array(total, np.float32))
    scale = Node("Mul", (sums, factor), (out,), {}, node.name)
    at.replace(product, [replace(product, outputs=(sums,)), scale])


SCALES_AFTER_PRODUCTS = Rules("scales_after_products", (RewriteRule(("MatMul",), _scale_after_product),))
FOLD_CHANNEL_SCALES = Rules(
    "fold_channel_scales",
    (
        RewriteRule(tuple(AFFINE), _fold_into_product),
        RewriteRule(CONVERTED, _change_to_convolution),
    ),
)
