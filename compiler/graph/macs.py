"""Multiply-accumulates of operators by their shapes, wherever they run."""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from vdla.compiler.graph.nodes import Graph, Node
from vdla.runtime.host.dtypes import UNKNOWN

BETWEEN_ACTIVATIONS = "Int8Products"
MICROSOFT = "com.microsoft"
Shape = Sequence[int]


class UnknownError(Exception):
    """The count follows from a shape that is not known."""


class Use(NamedTuple):
    """A use of an operator, as its definition has it.

    Attributes:
        inputs, outputs: shapes, with `UNKNOWN` where they are not known; None for a value that is left out.
    """

    inputs: Sequence[Shape | None]
    outputs: Sequence[Shape | None]
    attributes: Mapping[str, object]

    def input(self, place: int) -> Shape:
        """Return the shape of an input.

        Raises:
            UnknownError: it is not known.
        """
        return _known(self.inputs, place)

    @property
    def result(self) -> Shape:
        """The shape of the first output; errors as those of `input`."""
        return _known(self.outputs, 0)

    def integer(self, name: str) -> int:
        """Return an attribute that is a whole number; 0 where it is not given."""
        value = self.attributes.get(name, 0)
        return value if isinstance(value, int) else 0

    def past(self, place: int, axis: int) -> int:
        """Return the rows of keys from runs before, along an axis of an input; 0 where it is left out."""
        given = place < len(self.inputs) and self.inputs[place] is not None
        return self.input(place)[axis] if given else 0


def _known(shapes: Sequence[Shape | None], place: int) -> Shape:
    shape = shapes[place] if place < len(shapes) else None
    if shape is None or UNKNOWN in shape:
        raise UnknownError
    return shape


Count = Callable[[Use], int]


def _convolution(place: int) -> Count:
    """Return what counts a convolution whose weights are the input at `place`."""
    return lambda use: prod(use.result) * prod(use.input(place)[1:])


def _matrices(use: Use) -> int:
    return prod(use.result) * use.input(0)[-2 if use.integer("transA") else -1]


def _recurrent(use: Use) -> int:
    return prod(use.input(0)[:2]) * (prod(use.input(1)) + prod(use.input(2)))


def _blocks(use: Use) -> int:
    """MatMulNBits and its like: N outputs of each row."""
    return prod(use.input(0)[:-1]) * use.integer("K") * use.integer("N")


def _attention(use: Use) -> int:
    """Attention of ONNX: of queries, keys and values."""
    rows = use.input(1)[-2] + use.past(4, 2)
    return (prod(use.input(0)) + prod(use.result)) * rows


def _projected(past: int) -> Count:
    """Return what counts an attention that makes queries, keys and values of one tensor; `past` is the place
    of the keys from runs before."""

    def count(use: Use) -> int:
        x, weights = use.input(0), use.input(1)
        sizes = use.attributes.get("qkv_hidden_sizes")
        queries = int(sizes[0]) if isinstance(sizes, Sequence) else weights[1] // 3
        rows = x[1] + use.past(past, 3)
        return prod(x) * weights[1] + (prod(x[:2]) * queries + prod(use.result)) * rows

    return count


def _heads(use: Use) -> int:
    """MultiHeadAttention: queries may hold keys and values too, or keys the values."""
    queries, packed = use.input(0), len(use.input(0)) == 5
    rows = queries[1] if packed else use.input(1)[2 if len(use.input(1)) == 4 else 1]
    wide = prod(queries) // (3 if packed else 1)
    return (wide + prod(use.result)) * (rows + use.past(6, 2))


def _grouped(use: Use) -> int:
    """GroupQueryAttention: queries are as wide as the result."""
    return 2 * prod(use.result) * (use.input(0)[1] + use.past(3, 2))


def _einsum(use: Use) -> int:
    """Einsum: each element of the result sums over the letters that it has not."""
    terms, _, result = str(use.attributes["equation"]).replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    for place, term in enumerate(terms.split(",")):
        left, _, right = term.partition("...")
        shape = use.input(place)
        sizes |= dict(zip(left, shape, strict=False))
        sizes |= dict(zip(reversed(right), reversed(shape), strict=False))
    summed = prod(size for letter, size in sizes.items() if letter not in result)
    return terms.count(",") * prod(use.result) * summed if result else terms.count(",") * prod(sizes.values())


def _transposed(use: Use) -> int:
    return prod(use.input(0)) * prod(use.input(1)[1:])


def _windows(use: Use) -> int:
    """Int8AveragePool: a product with 1 for each element of a window."""
    kernel = use.attributes["kernel_shape"]
    return prod(use.result) * (prod(kernel) if isinstance(kernel, Sequence) else 1)


COUNTS: Mapping[str, Count] = {
    "Attention": _attention,
    f"{MICROSOFT}.Attention": _projected(4),
    "Einsum": _einsum,
    "GroupQueryAttention": _grouped,
    "MultiHeadAttention": _heads,
    "Int8AveragePool": _windows,
    "Int8Scale": lambda use: prod(use.result),
    "QAttention": _projected(8),
    "QLinearConv": _convolution(3),
    **dict.fromkeys(("ConvTranspose", "Int8ConvTranspose"), _transposed),
    **dict.fromkeys(
        ("Conv", "ConvInteger", "DeformConv", "FusedConv", "Int8Conv", "NhwcFusedConv"), _convolution(1)
    ),
    **dict.fromkeys(("DynamicQuantizeLSTM", "GRU", "LSTM", "RNN"), _recurrent),
    **dict.fromkeys(("MatMulBnb4", "MatMulNBits"), _blocks),
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
        _matrices,
    ),
}
"""What counts each operator that multiplies: one entry for an operator of all domains, or with its domain."""
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
"""Operators that multiply, for which nothing counts how often."""


def macs_of(op: str, use: Use, domain: str = "") -> int | None:
    """Return the multiply-accumulates of an operator, as its definition has it: 0 for one that multiplies no
    matrices; None where a shape that they follow from is not known, or nothing counts them."""
    count = COUNTS.get(f"{domain}.{op}", COUNTS.get(op))
    if count is None:
        return None if op in UNCOUNTED else 0
    try:
        return count(use)
    except UnknownError:
        return None


def macs(graph: Graph, node: Node) -> int:
    """Return the multiply-accumulates of a node of a graph; 0 where shapes are not known."""
    if node.macs is not None:
        return node.macs
    if node.op == BETWEEN_ACTIVATIONS:
        return len(node.extents("places")) // 2 * prod(node.extents("size"))
    inputs, outputs = (
        [graph.types[name].shape if name else None for name in names] for names in (node.inputs, node.outputs)
    )
    return macs_of(node.op, Use(inputs, outputs, node.attributes)) or 0
