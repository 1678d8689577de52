"""Multiply-accumulates of operators by their shapes, on any device."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from vdla.compiler.graph.nodes import Graph, Node
from vdla.runtime.host.dtypes import UNKNOWN

BETWEEN_ACTIVATIONS = "Int8Products"
MICROSOFT = "com.microsoft"
Shape = Sequence[int]


class UnknownError(Exception):
    """The count depends on a shape that is not known."""


class OperatorShapes(NamedTuple):
    """The shapes and attributes of a node, in the order of the operator's definition.

    Attributes:
        inputs, outputs: shapes, with `UNKNOWN` for unknown extents; None for a value that is left out.
        attributes: by name.
    """

    inputs: Sequence[Shape | None]
    outputs: Sequence[Shape | None]
    attributes: Mapping[str, object]

    def input(self, place: int) -> Shape:
        """Return the shape of the input at `place`.

        Raises:
            UnknownError: the shape is not fully known.
        """
        return _known(self.inputs, place)

    @property
    def result(self) -> Shape:
        """The shape of the first output.

        Raises:
            UnknownError: the shape is not fully known.
        """
        return _known(self.outputs, 0)

    def integer(self, name: str) -> int:
        """Return an integer attribute; 0 if it is missing."""
        value = self.attributes.get(name, 0)
        return value if isinstance(value, int) else 0

    def past(self, place: int, axis: int) -> int:
        """Return the number of cached keys along `axis` of the input at `place`; 0 if it is left out."""
        given = place < len(self.inputs) and self.inputs[place] is not None
        return self.input(place)[axis] if given else 0


def _known(shapes: Sequence[Shape | None], place: int) -> Shape:
    shape = shapes[place] if place < len(shapes) else None
    if shape is None or UNKNOWN in shape:
        raise UnknownError
    return shape


Count = Callable[[OperatorShapes], int]


def _convolution(place: int) -> Count:
    """Return the count of a convolution whose weights are the input at `place`."""
    return lambda shapes: prod(shapes.result) * prod(shapes.input(place)[1:])


def _matrix_product(shapes: OperatorShapes) -> int:
    return prod(shapes.result) * shapes.input(0)[-2 if shapes.integer("transA") else -1]


def _recurrent(shapes: OperatorShapes) -> int:
    return prod(shapes.input(0)[:2]) * (prod(shapes.input(1)) + prod(shapes.input(2)))


def _packed_product(shapes: OperatorShapes) -> int:
    """MatMulNBits and MatMulBnb4: N outputs of each row."""
    return prod(shapes.input(0)[:-1]) * shapes.integer("K") * shapes.integer("N")


def _attention(shapes: OperatorShapes) -> int:
    """Attention of ONNX, with separate queries, keys and values."""
    rows = shapes.input(1)[-2] + shapes.past(4, 2)
    return (prod(shapes.input(0)) + prod(shapes.result)) * rows


def _projected(past: int) -> Count:
    """Return the count of an attention that projects queries, keys and values from the same tensor.

    Args:
        past: place of the input with cached keys.
    """

    def count(shapes: OperatorShapes) -> int:
        x, weights = shapes.input(0), shapes.input(1)
        sizes = shapes.attributes.get("qkv_hidden_sizes")
        queries = int(sizes[0]) if isinstance(sizes, Sequence) else weights[1] // 3
        rows = x[1] + shapes.past(past, 3)
        return prod(x) * weights[1] + (prod(x[:2]) * queries + prod(shapes.result)) * rows

    return count


def _multi_head(shapes: OperatorShapes) -> int:
    """MultiHeadAttention: queries may be packed with keys and values, or keys with values."""
    queries, packed = shapes.input(0), len(shapes.input(0)) == 5
    rows = queries[1] if packed else shapes.input(1)[2 if len(shapes.input(1)) == 4 else 1]
    wide = prod(queries) // (3 if packed else 1)
    return (wide + prod(shapes.result)) * (rows + shapes.past(6, 2))


def _grouped_query(shapes: OperatorShapes) -> int:
    """GroupQueryAttention: queries have the width of the result."""
    return 2 * prod(shapes.result) * (shapes.input(0)[1] + shapes.past(3, 2))


def _einsum(shapes: OperatorShapes) -> int:
    """Einsum: each element of the result is a sum over the letters that are not in the result."""
    terms, _, result = str(shapes.attributes["equation"]).replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    for place, term in enumerate(terms.split(",")):
        left, _, right = term.partition("...")
        shape = shapes.input(place)
        sizes |= dict(zip(left, shape, strict=False))
        sizes |= dict(zip(reversed(right), reversed(shape), strict=False))
    summed = prod(size for letter, size in sizes.items() if letter not in result)
    return (
        terms.count(",") * prod(shapes.result) * summed if result else terms.count(",") * prod(sizes.values())
    )


def _transposed(shapes: OperatorShapes) -> int:
    return prod(shapes.input(0)) * prod(shapes.input(1)[1:])


def _windows(shapes: OperatorShapes) -> int:
    """Int8AveragePool: each element of a window counts as a product with 1."""
    kernel = shapes.attributes["kernel_shape"]
    return prod(shapes.result) * (prod(kernel) if isinstance(kernel, Sequence) else 1)


COUNTS: Mapping[str, Count] = {
    "Attention": _attention,
    f"{MICROSOFT}.Attention": _projected(4),
    "Einsum": _einsum,
    "GroupQueryAttention": _grouped_query,
    "MultiHeadAttention": _multi_head,
    "Int8AveragePool": _windows,
    "Int8Scale": lambda shapes: prod(shapes.result),
    "QAttention": _projected(8),
    "QLinearConv": _convolution(3),
    **dict.fromkeys(("ConvTranspose", "Int8ConvTranspose"), _transposed),
    **dict.fromkeys(
        ("Conv", "ConvInteger", "DeformConv", "FusedConv", "Int8Conv", "NhwcFusedConv"), _convolution(1)
    ),
    **dict.fromkeys(("DynamicQuantizeLSTM", "GRU", "LSTM", "RNN"), _recurrent),
    **dict.fromkeys(("MatMulBnb4", "MatMulNBits"), _packed_product),
    **dict.fromkeys(
        (
            "DynamicQuantizeMatMul",
            "FusedGemm",
            "FusedMatMul",
            "Gemm",
            "Int8MatMul",
            "MatMul",
            "MatMulInteger",
            "MatMulInteger16",
            "MatMulIntegerToFloat",
            "QGemm",
            "QLinearMatMul",
            "TransposeMatMul",
        ),
        _matrix_product,
    ),
}
"""The count of each operator that multiplies, by operator, or by domain and operator."""
UNCOUNTED = (
    "DecoderAttention",
    "DecoderMaskedMultiHeadAttention",
    "DecoderMaskedSelfAttention",
    "LinearAttention",
    "LongformerAttention",
    "MoE",
    "PackedAttention",
    "PackedMultiHeadAttention",
    "PagedAttention",
    "QMoE",
    "QOrderedAttention",
    "QOrderedMatMul",
    "SparseAttention",
)
"""Operators that multiply, but have no count."""


def macs_of(op: str, shapes: OperatorShapes, domain: str = "") -> int | None:
    """Return the multiply-accumulates of an operator: 0 if it multiplies no matrices; None if the operator
    has no count, or its count depends on an unknown shape."""
    count = COUNTS.get(f"{domain}.{op}", COUNTS.get(op))
    if count is None:
        return None if op in UNCOUNTED else 0
    try:
        return count(shapes)
    except UnknownError:
        return None


def macs(graph: Graph, node: Node) -> int:
    """Return the multiply-accumulates of a node of a graph; 0 if shapes are not known."""
    if node.macs is not None:
        return node.macs
    if node.op == BETWEEN_ACTIVATIONS:
        return len(node.extents("places")) // 2 * prod(node.extents("size"))
    inputs, outputs = (
        [graph.types[name].shape if name else None for name in names] for names in (node.inputs, node.outputs)
    )
    return macs_of(node.op, OperatorShapes(inputs, outputs, node.attributes)) or 0
