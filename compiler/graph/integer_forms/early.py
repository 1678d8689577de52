"""What operators must be to become others, before integer forms are looked for: batch normalisation becomes
Conv, Sum becomes Add, means and maxima over space become pooling, QLinear operators become float ones between
conversions, products of tensors that are quantised by their own range become float ones where samples are
given."""

from collections.abc import Mapping
from typing import NamedTuple

from vdla.compiler.graph.nodes import Node, Values
from vdla.compiler.rules import Rule, counted

IMAGE_RANK = 4
IMAGE_RANKS = (3, IMAGE_RANK)  # rows, and images
SPACE = 2  # the first of the dimensions of space
REDUCTIONS = ("GlobalMaxPool", "ReduceMax", "ReduceMean")
MEANINGS = {"QLinearConv": "Conv", "QLinearMatMul": "MatMul"}
PRODUCTS = {"ConvInteger": "Conv", "MatMulInteger": "MatMul"}
DYNAMIC = "DynamicQuantizeLinear"
PAD = "Pad"
TAKEN = "a border of zeros around images, which goes into the AveragePool, Conv or MaxPool behind it"
QLINEAR_PARAMETERS = (1, 2, 4, 5, 6, 7)  # places of scales and zero points


class Located(NamedTuple):
    """An operator in its graph."""

    graph: Values
    node: Node


def _rank(at: Located) -> str:
    rank = len(at.graph.types[at.node.outputs[0]].shape)
    return "" if rank == IMAGE_RANK else f"a result of {counted(rank, 'dimension')}"


def _computed(at: Located, places: tuple[int, ...], role: str) -> str:
    names = (name for place, name in enumerate(at.node.inputs) if place in places and name)
    return next(
        (f"{role} {name} that is not constant" for name in names if name not in at.graph.constants), ""
    )


def _alike(at: Located) -> str:
    types = [at.graph.types[name] for name in (*at.node.inputs, *at.node.outputs)]
    return "" if len(set(types)) == 1 else f"operands {', '.join(map(str, types[:-1]))}"


def _image(at: Located) -> str:
    type_ = at.graph.types[at.node.inputs[0]]
    fits = type_.is_known and type_.dtype == "float32" and len(type_.shape) in IMAGE_RANKS
    return "" if fits else f"input {at.node.inputs[0]}: {type_}"


def _over_space(at: Located) -> str:
    axes = () if at.node.op == "GlobalMaxPool" else at.node.extents("axes")
    return f"axes = {axes}" if any(axis < SPACE for axis in axes) else ""


def _border(at: Located) -> str:
    """Say what is wrong with a Pad that no operator behind it has taken."""
    mode = at.node.attributes.get("mode", "constant")
    return "a border that no operator behind it takes" if mode == "constant" else f"mode = {mode}"


RULES: Mapping[str, tuple[Rule[Located], ...]] = {
    "BatchNormalization": (
        Rule("images, of 4 dimensions", _rank),
        Rule("constant parameters", lambda at: _computed(at, (1, 2, 3, 4), "parameter")),
    ),
    DYNAMIC: (
        Rule(
            "ranges that samples give",
            lambda at: "a range that is found while it runs",
            "give samples of the inputs (--calibrate SAMPLES.npz)",
        ),
    ),
    PAD: (Rule(TAKEN, _border),),
    "Sum": (Rule("operands of one shape", _alike),),
    **dict.fromkeys(
        REDUCTIONS,
        (Rule("images, of 3 or 4 dimensions", _image), Rule("only dimensions of space", _over_space)),
    ),
    **dict.fromkeys(
        MEANINGS,
        (
            Rule(
                "constant scales and zero points",
                lambda at: _computed(at, QLINEAR_PARAMETERS, "scale or zero point"),
            ),
        ),
    ),
}


def becomes_another(graph: Values, node: Node) -> bool:
    """Whether an operator has rules here that all hold."""
    return node.op in RULES and not any(rule.violation(Located(graph, node)) for rule in RULES[node.op])
