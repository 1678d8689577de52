"""Networks of as many nodes as are asked for, each of one form: chains, wide graphs and nests.

They show which stage of the compiler takes more time for a node of a larger network. The nodes do little, so
that the time is the compiler's.
"""

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 17, 8
ROW = (1, 16)
IMAGE = (1, 16, 4, 4)
CHANNELS = 16


def relus(count: int) -> ModelProto:
    """Return a chain of `Relu`."""
    nodes = [helper.make_node("Relu", [_link(place)], [_link(place + 1)]) for place in range(count)]
    return _model(nodes, {_link(0): ROW}, {_link(count): ROW})


def mixed(count: int) -> ModelProto:
    """Return a chain of sums and products with constants, moves, identities, tanh and Relu."""
    forms: list[tuple[str, list[str], dict[str, object]]] = [
        ("Relu", [], {}),
        ("Add", ["shift"], {}),
        ("Mul", ["factor"], {}),
        ("Transpose", [], {"perm": [1, 0]}),
        ("Tanh", [], {}),
        ("Reshape", ["shape"], {}),
        ("Identity", [], {}),
        ("Sigmoid", [], {}),
    ]
    count = max(1, count // len(forms)) * len(forms)
    nodes = []
    for place in range(count):
        op, others, attributes = forms[place % len(forms)]
        nodes.append(helper.make_node(op, [_link(place), *others], [_link(place + 1)], **attributes))
    constants = {
        "shift": np.full(ROW, 0.125, np.float32),
        "factor": np.full(ROW, 0.5, np.float32),
        "shape": np.array(ROW, np.int64),
    }
    return _model(nodes, {_link(0): ROW}, {_link(count): ROW}, constants)


def moves(count: int) -> ModelProto:
    """Return a chain of transpositions and changes of shape, whose order a pass follows."""
    shapes = [(4, 4, 6), (6, 4, 4), (4, 24), (96,), (2, 48), (48, 2), (4, 4, 6)]
    forms = ["Transpose", "Reshape", "Reshape", "Reshape", "Transpose", "Reshape"]
    count = max(1, count // len(forms)) * len(forms)
    nodes = []
    for place in range(count):
        form, after = forms[place % len(forms)], shapes[place % len(forms) + 1]
        if form == "Transpose":
            perm = [2, 0, 1] if len(after) == 3 else [1, 0]
            nodes.append(helper.make_node(form, [_link(place)], [_link(place + 1)], perm=perm))
        else:
            nodes.append(
                helper.make_node(form, [_link(place), f"s{'_'.join(map(str, after))}"], [_link(place + 1)])
            )
    constants = {f"s{'_'.join(map(str, shape))}": np.array(shape, np.int64) for shape in shapes}
    return _model(nodes, {_link(0): shapes[0]}, {_link(count): shapes[0]}, constants)


def scales(count: int) -> ModelProto:
    """Return a chain of products and sums with constants."""
    nodes = [
        helper.make_node(("Mul", "Add")[place % 2], [_link(place), f"c{place % 2}"], [_link(place + 1)])
        for place in range(count)
    ]
    constants = {f"c{place}": np.full((1, ROW[1]), value, np.float32) for place, value in enumerate((0.5, 1))}
    return _model(nodes, {_link(0): ROW}, {_link(count): ROW}, constants)


def readers(count: int) -> ModelProto:
    """Return a tensor that `count` nodes read, all of whose results go into one Sum."""
    nodes = [
        helper.make_node(("Relu", "Neg", "Abs", "Tanh")[place % 4], ["x"], [f"y{place}"])
        if place < 4
        else helper.make_node("Mul", ["x", f"c{place}"], [f"y{place}"])
        for place in range(count)
    ]
    nodes.append(helper.make_node("Sum", [f"y{place}" for place in range(count)], ["out"]))
    constants = {f"c{place}": np.full((), place, np.float32) for place in range(4, count)}
    return _model(nodes, {"x": ROW}, {"out": ROW}, constants)


def concat(count: int) -> ModelProto:
    """Return one Concat of `count` values."""
    nodes = [helper.make_node("Mul", ["x", f"c{place}"], [f"y{place}"]) for place in range(count)]
    nodes.append(helper.make_node("Concat", [f"y{place}" for place in range(count)], ["out"], axis=1))
    constants = {f"c{place}": np.full((), place, np.float32) for place in range(count)}
    return _model(nodes, {"x": ROW}, {"out": (1, count * ROW[1])}, constants)


def tree(count: int) -> ModelProto:
    """Return a balanced tree of `Add`."""
    leaves = max(2, count // 2)
    nodes = [helper.make_node("Mul", ["x", f"c{place}"], [f"y{place}"]) for place in range(leaves)]
    constants = {f"c{place}": np.full((), place, np.float32) for place in range(leaves)}
    waiting, sums = [f"y{place}" for place in range(leaves)], 0
    while len(waiting) > 1:
        following = []
        for left, right in zip(waiting[::2], waiting[1::2], strict=False):
            following.append(f"a{sums}")
            nodes.append(helper.make_node("Add", [left, right], [following[-1]]))
            sums += 1
        waiting = [*following, *waiting[len(waiting) // 2 * 2 :]]
    return _model(nodes, {"x": ROW}, {waiting[0]: ROW}, constants)


def outputs(count: int) -> ModelProto:
    """Return as many outputs as nodes."""
    nodes = [helper.make_node("Mul", ["x", f"c{place}"], [f"y{place}"]) for place in range(count)]
    constants = {f"c{place}": np.full((), place, np.float32) for place in range(count)}
    return _model(nodes, {"x": ROW}, {f"y{place}": ROW for place in range(count)}, constants)


def conversions(count: int) -> ModelProto:
    """Return a chain of pairs of QuantizeLinear and DequantizeLinear."""
    pairs = max(1, count // 2)
    nodes = []
    for place in range(pairs):
        nodes.append(helper.make_node("QuantizeLinear", [_link(place), "scale", "zero"], [f"q{place}"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"q{place}", "scale", "zero"], [_link(place + 1)]))
    return _model(nodes, {_link(0): ROW}, {_link(pairs): ROW}, _SCALES)


def qdq_relus(count: int) -> ModelProto:
    """Return a chain of Relu between conversions."""
    links = max(1, count // 3)
    nodes = []
    for place in range(links):
        nodes.append(helper.make_node("Relu", [_link(place)], [f"r{place}"]))
        nodes.append(helper.make_node("QuantizeLinear", [f"r{place}", "scale", "zero"], [f"q{place}"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"q{place}", "scale", "zero"], [_link(place + 1)]))
    return _model(nodes, {_link(0): IMAGE}, {_link(links): IMAGE}, _SCALES)


def convs(count: int) -> ModelProto:
    """Return a chain of quantised 1x1 convolutions, each with int8 weights, between conversions."""
    layers = max(1, count // 4)
    random = np.random.default_rng(0)
    constants = dict(_SCALES)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q0"]),
        helper.make_node("DequantizeLinear", ["q0", "scale", "zero"], ["h0"]),
    ]
    for place in range(layers):
        constants[f"w{place}"] = random.integers(-4, 5, (CHANNELS, CHANNELS, 1, 1), np.int8)
        nodes += [
            helper.make_node("DequantizeLinear", [f"w{place}", "scale", "zero"], [f"d{place}"]),
            helper.make_node("Conv", [f"h{place}", f"d{place}"], [f"c{place}"], kernel_shape=[1, 1]),
            helper.make_node("QuantizeLinear", [f"c{place}", "scale", "zero"], [f"q{place + 1}"]),
            helper.make_node("DequantizeLinear", [f"q{place + 1}", "scale", "zero"], [f"h{place + 1}"]),
        ]
    return _model(nodes, {"x": IMAGE}, {f"h{layers}": IMAGE}, constants)


def float_convs(count: int) -> ModelProto:
    """Return a chain of 1x1 convolutions and Relu in float, to be calibrated."""
    layers = max(1, count // 2)
    random = np.random.default_rng(0)
    constants, nodes = {}, []
    for place in range(layers):
        weights = random.standard_normal((CHANNELS, CHANNELS, 1, 1), np.float32)
        constants[f"w{place}"] = weights * np.float32((2 / CHANNELS) ** 0.5)
        nodes.append(
            helper.make_node("Conv", [_link(place), f"w{place}"], [f"c{place}"], kernel_shape=[1, 1])
        )
        nodes.append(helper.make_node("Relu", [f"c{place}"], [_link(place + 1)]))
    return _model(nodes, {_link(0): IMAGE}, {_link(layers): IMAGE}, constants)


def residuals(count: int) -> ModelProto:
    """Return a chain of quantised residual blocks: a 1x1 convolution, and its sum with what it reads."""
    layers = max(1, count // 7)
    random = np.random.default_rng(0)
    constants = dict(_SCALES)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q0"]),
        helper.make_node("DequantizeLinear", ["q0", "scale", "zero"], ["h0"]),
    ]
    for place in range(layers):
        constants[f"w{place}"] = random.integers(-4, 5, (CHANNELS, CHANNELS, 1, 1), np.int8)
        nodes += [
            helper.make_node("DequantizeLinear", [f"w{place}", "scale", "zero"], [f"d{place}"]),
            helper.make_node("Conv", [f"h{place}", f"d{place}"], [f"c{place}"], kernel_shape=[1, 1]),
            helper.make_node("QuantizeLinear", [f"c{place}", "scale", "zero"], [f"i{place}"]),
            helper.make_node("DequantizeLinear", [f"i{place}", "scale", "zero"], [f"j{place}"]),
            helper.make_node("Add", [f"h{place}", f"j{place}"], [f"a{place}"]),
            helper.make_node("QuantizeLinear", [f"a{place}", "scale", "zero"], [f"q{place + 1}"]),
            helper.make_node("DequantizeLinear", [f"q{place + 1}", "scale", "zero"], [f"h{place + 1}"]),
        ]
    return _model(nodes, {"x": IMAGE}, {f"h{layers}": IMAGE}, constants)


def ifs(count: int) -> ModelProto:
    """Return `count` Ifs, each within a branch of the If before it, that a run decides."""
    return _model([_if(count, "c")], {"x": ROW, "c": ()}, {"y0": ROW}, {}, {"c": TensorProto.BOOL})


def known_ifs(count: int) -> ModelProto:
    """Return `count` Ifs, each within a branch of the If before it, whose condition is a constant."""
    return _model([_if(count, "c")], {"x": ROW}, {"y0": ROW}, {"c": np.array(True)})


def loops(count: int) -> ModelProto:
    """Return `count` Loops, each within the body of the Loop before it, each of one turn."""
    inner: list[NodeProto] = []
    for depth in reversed(range(count)):
        body = [*inner] or [helper.make_node("Relu", [f"v{depth}"], [f"w{depth}"])]
        result = f"y{depth + 1}" if inner else f"w{depth}"
        graph = helper.make_graph(
            [helper.make_node("Identity", [f"t{depth}"], [f"u{depth}"]), *body],
            f"body{depth}",
            [
                helper.make_tensor_value_info(f"n{depth}", TensorProto.INT64, ()),
                helper.make_tensor_value_info(f"t{depth}", TensorProto.BOOL, ()),
                helper.make_tensor_value_info(f"v{depth}", TensorProto.FLOAT, ROW),
            ],
            [
                helper.make_tensor_value_info(f"u{depth}", TensorProto.BOOL, ()),
                helper.make_tensor_value_info(result, TensorProto.FLOAT, ROW),
            ],
        )
        given = f"v{depth - 1}" if depth else "x"
        inner = [helper.make_node("Loop", ["turns", "go", given], [f"y{depth}"], body=graph)]
    constants = {"turns": np.array(1, np.int64), "go": np.array(True)}
    return _model(inner, {"x": ROW}, {"y0": ROW}, constants)


def functions(count: int, calls: int = 2) -> ModelProto:
    """Return `count` functions of the model, each of which calls the next function `calls` times.

    The last function is a Relu, so that the model stands for `calls` ** (`count` - 1) nodes.
    """
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("own", 1)]
    definitions = []
    for depth in range(count):
        links = [_link(place) for place in range(calls + 1)]
        op, domain = (f"f{depth + 1}", "own") if depth + 1 < count else ("Relu", "")
        pairs = pairwise(links) if depth + 1 < count else [(links[0], links[-1])]
        nodes = [helper.make_node(op, [source], [target], domain=domain) for source, target in pairs]
        definitions.append(helper.make_function("own", f"f{depth}", links[:1], links[-1:], nodes, imports))
    model = _model([helper.make_node("f0", ["x"], ["y"], domain="own")], {"x": ROW}, {"y": ROW})
    model.opset_import.append(imports[1])
    model.functions.extend(definitions)
    return model


KINDS: Mapping[str, Callable[[int], ModelProto]] = {
    "relus": relus,
    "mixed": mixed,
    "moves": moves,
    "scales": scales,
    "readers": readers,
    "concat": concat,
    "tree": tree,
    "outputs": outputs,
    "conversions": conversions,
    "qdq_relus": qdq_relus,
    "convs": convs,
    "residuals": residuals,
    "float_convs": float_convs,
    "ifs": ifs,
    "known_ifs": known_ifs,
    "loops": loops,
}
"""Functions that return a model of about so many nodes, by the name of its form."""

_SCALES = {"scale": np.array(0.0625, np.float32), "zero": np.array(0, np.int8)}


def _link(place: int) -> str:
    """Return the name of a value of a chain."""
    return f"v{place}"


def _if(count: int, condition: str) -> NodeProto:
    """Return an If with `count` - 1 others within its branch."""
    node: NodeProto | None = None
    for depth in reversed(range(count)):
        inner = [helper.make_node("Relu", ["x"], [f"t{depth}"])] if node is None else [node]
        then = _branch(inner, f"t{depth}" if node is None else f"y{depth + 1}", f"then{depth}")
        otherwise = _branch([helper.make_node("Neg", ["x"], [f"e{depth}"])], f"e{depth}", f"else{depth}")
        node = helper.make_node("If", [condition], [f"y{depth}"], then_branch=then, else_branch=otherwise)
    assert node is not None, "there is at least one If"
    return node


def _branch(nodes: list[NodeProto], out: str, name: str) -> GraphProto:
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(out, TensorProto.FLOAT, ROW)])


def _model(
    nodes: list[NodeProto],
    inputs: Mapping[str, tuple[int, ...]],
    outputs: Mapping[str, tuple[int, ...]],
    constants: Mapping[str, np.ndarray] | None = None,
    dtypes: Mapping[str, int] | None = None,
) -> ModelProto:
    """Return a model; inputs and outputs by name with their shapes, of float32 but for `dtypes`."""
    kinds = dtypes or {}

    def declared(values: Mapping[str, tuple[int, ...]]) -> list[object]:
        return [
            helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shape)
            for name, shape in values.items()
        ]

    tensors = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "large", declared(inputs), declared(outputs), tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
