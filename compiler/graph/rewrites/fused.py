"""Fuses operators with the conversions before and after them into operators on int8 tensors.

| rule | rewrite |
|---|---|
| `softmax_of_integers` | `Softmax(DequantizeLinear(x))` -> `DequantizedSoftmax(x)` |
| `quantised_softmax` | `QuantizeLinear(DequantizedSoftmax(x))` -> `Int8Softmax(x)` |
| `quantised_normalisation` | LayerNormalization between conversions -> `Int8LayerNormalization(x)` |
| `dense_to_convolution` | `Int8MatMul(Flatten(x), w)` -> `Reshape(Int8Conv(x, w))` on the image |
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from vdla.compiler.graph.def_use import DefUse
from vdla.compiler.graph.nodes import Attribute, Node, TensorType
from vdla.compiler.graph.rules import Rewriter, RewriteRule, Rules

FLATTENING = ("Flatten", "Reshape")
IMAGE_RANK = 4
POINTWISE: Mapping[str, Attribute] = {
    "border": 0,
    "dilations": (1, 1),
    "group": 1,
    "pads": (0, 0, 0, 0),
    "strides": (1, 1),
}


def _is_narrow(at: DefUse, conversion: Node) -> bool:
    """Whether a conversion is between real numbers and int8, by a single constant scale and zero point."""
    _, *parameters = conversion.inputs
    return at.types[parameters[1]].dtype == "int8" and all(  # the zero point has the integers' type
        name in at.constants and at.types[name].size == 1 for name in parameters
    )


def _softmax_of_integers(at: Rewriter, node: Node) -> None:
    """A softmax that alone reads a dequantised tensor reads the int8 tensor: a single pass converts and
    normalises."""
    conversion = at.maker(node.inputs[0], "DequantizeLinear")
    if conversion is None or not at.is_read_once(node.inputs[0]):
        return
    integers, scale, zero = (at.types[name] for name in conversion.inputs)
    if integers.dtype == "int8" and scale.size == zero.size == 1:
        at.replace(node, [replace(node, op="DequantizedSoftmax", inputs=conversion.inputs)])


def _quantised_softmax(at: Rewriter, node: Node) -> None:
    """A softmax whose result is only read by QuantizeLinear makes int8 numbers."""
    softmax = at.maker(node.inputs[0], "DequantizedSoftmax")
    if softmax is None or not at.is_read_once(node.inputs[0]) or not _is_narrow(at, node):
        return
    x, scale, _ = softmax.inputs
    inputs = (x, scale, *node.inputs[1:3])
    at.replace(node, [replace(softmax, op="Int8Softmax", inputs=inputs, outputs=node.outputs)])


def _quantised_normalisation(at: Rewriter, node: Node) -> None:
    """A layer normalisation of the last axis between conversions reads and makes int8 numbers."""
    normal = at.maker(node.inputs[0], "LayerNormalization")
    if normal is None or not at.is_read_once(node.inputs[0]) or not _is_narrow(at, node):
        return
    conversion = at.maker(normal.inputs[0], "DequantizeLinear")
    if conversion is None or not _is_narrow(at, conversion):
        return
    rank = len(at.types[normal.inputs[0]].shape)
    if normal.integer("axis") % rank != rank - 1:
        at.missed(node, f"{normal} normalises axis {normal.integer('axis')} of {rank}, not the last")
        return
    bias = normal.inputs[2] if len(normal.inputs) > 2 else ""
    inputs = (*conversion.inputs[:2], normal.inputs[1], bias, *node.inputs[1:3])
    attributes = {"epsilon": normal.attributes["epsilon"]}
    operator = replace(normal, op="Int8LayerNormalization", inputs=inputs, attributes=attributes)
    at.replace(node, [replace(operator, outputs=node.outputs)])


def _dense_to_convolution(at: Rewriter, node: Node) -> None:
    """A dense layer on a flattened image becomes a convolution whose kernel covers the image, so that the
    image keeps the layout in which convolutions write it."""
    flattening, (out,) = at.maker(node.inputs[0], *FLATTENING), node.outputs
    if flattening is None or not at.are_constant(*node.inputs[1:]):
        return
    image, row = at.types[flattening.inputs[0]], at.types[node.inputs[0]]
    if len(image.shape) != IMAGE_RANK or image.shape[0] != 1 or row.size != row.shape[-1]:
        return
    if image.shape[2:] == (1, 1):  # a pixel lies in DRAM as a row does
        return
    weights = at.constants[node.inputs[1]]
    kernels = np.ascontiguousarray(weights.T).reshape(-1, *image.shape[1:])
    inputs = (flattening.inputs[0], at.constant(f"{out}_kernels", kernels), node.inputs[2])
    sums = at.value(f"{out}_image", TensorType((1, weights.shape[1], 1, 1), "int8"))
    at.replace(
        node,
        [
            Node("Int8Conv", inputs, (sums,), POINTWISE, node.name),
            Node("Reshape", (sums,), (out,), {"shape": at.types[out].shape}),
        ],
    )


DENSE_TO_CONVOLUTION = Rules("dense_to_convolution", (RewriteRule(("Int8MatMul",), _dense_to_convolution),))
FUSE_CONVERSIONS = Rules(
    "fuse_conversions",
    (
        RewriteRule(("Softmax",), _softmax_of_integers),
        RewriteRule(("QuantizeLinear",), _quantised_softmax),
        RewriteRule(("QuantizeLinear",), _quantised_normalisation),
    ),
)
