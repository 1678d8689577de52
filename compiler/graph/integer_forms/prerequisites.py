"""Rules for operators that are replaced before integer forms are matched.

BatchNormalization becomes Conv, Sum becomes Add, means and maxima over space become pooling. QLinear
operators become float operators between conversions. Products of dynamically quantised tensors become float
products if samples are given.
"""

from collections.abc import Mapping
from typing import NamedTuple

from vdla.compiler.graph.nodes import Node, Values
from vdla.compiler.rules import Rule, counted
from vdla.runtime.layout import IMAGE_RANK

VOLUME_RANK = IMAGE_RANK + 1
SPATIAL_RANKS = (3, IMAGE_RANK, VOLUME_RANK)  # rows, images, and volumes
SPACE = 2  # the first spatial dimension
REDUCTIONS = ("GlobalMaxPool", "ReduceMax", "ReduceMean")
MEANINGS = {"QLinearConv": "Conv", "QLinearMatMul": "MatMul"}
PRODUCTS = {"ConvInteger": "Conv", "MatMulInteger": "MatMul"}
DYNAMIC = "DynamicQuantizeLinear"
SAMPLES = "give samples of the inputs (--calibrate SAMPLES.npz)"
PAD = "Pad"
TAKEN = "a border of zeros around images, which becomes padding of the AveragePool, Conv or MaxPool after it"
QLINEAR_PARAMETERS = (1, 2, 4, 5, 6, 7)  # indices of the inputs that are scales and zero points


class Located(NamedTuple):
    """An operator in its graph."""

    graph: Values
    node: Node


def _rank(at: Located) -> str:
    rank = len(at.graph.types[at.node.result].shape)
    return "" if rank in SPATIAL_RANKS[1:] else f"a result of {counted(rank, 'dimension')}"


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
    fits = type_.is_known and type_.dtype == "float32" and len(type_.shape) in SPATIAL_RANKS
    return "" if fits else f"input {at.node.inputs[0]}: {type_}"


def _over_space(at: Located) -> str:
    axes = () if at.node.op == "GlobalMaxPool" else at.node.extents("axes")
    return f"axes = {axes}" if any(axis < SPACE for axis in axes) else ""


def _border(at: Located) -> str:
    """Describe why a Pad has not been folded into the operator after it."""
    mode = at.node.attributes.get("mode", "constant")
    return "a border that no operator after it can pad with" if mode == "constant" else f"mode = {mode}"


RULES: Mapping[str, tuple[Rule[Located], ...]] = {
    "BatchNormalization": (
        Rule("images, of 4 dimensions, or volumes, of 5", _rank),
        Rule("constant parameters", lambda at: _computed(at, (1, 2, 3, 4), "parameter")),
    ),
    DYNAMIC: (
        Rule(
            "ranges that samples give",
            lambda at: "a range computed at run time",
            SAMPLES,
        ),
    ),
    PAD: (Rule(TAKEN, _border),),
    "Sum": (Rule("operands of one shape", _alike),),
    **dict.fromkeys(
        REDUCTIONS,
        (
            Rule("rows, images or volumes, of 3 to 5 dimensions", _image),
            Rule("only dimensions of space", _over_space),
        ),
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
    """Whether an operator has rules in `RULES` and all of them hold."""
    return node.op in RULES and not any(rule.violation(Located(graph, node)) for rule in RULES[node.op])
