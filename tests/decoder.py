"""A decoder of a few channels with a cache of keys and values, as an ONNX model of one step."""

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

PARTS = ("q", "k", "v")
CACHED = ("k", "v")


def decoder(width: int = 8, heads: int = 2, places: int = 4, symbols: int = 8) -> ModelProto:
    """Return a step: logits float32[1, 1, symbols] of token int64[1, 1], and caches float32[1, heads, places,
    width / heads], past_k and past_v, without their oldest place and with a new place: present_k and
    present_v."""
    rng, size = np.random.default_rng(0), width // heads
    shapes = {**{f"w{part}": (width, width) for part in PARTS}, "wo": (width, width), "wl": (width, symbols)}
    constants = {
        **{
            name: rng.standard_normal(shape).astype(np.float32) / width**0.5 for name, shape in shapes.items()
        },
        "embedding": rng.standard_normal((symbols, width)).astype(np.float32),
        "split": np.array([1, 1, heads, size]),
        "joined": np.array([1, 1, width]),
        "first": np.array([1]),
        "last": np.array([places + 1]),
        "axis": np.array([2]),
        "scale": np.float32(size**-0.5),
    }
    cache = {part: [1, heads, places, size] for part in CACHED}
    graph = helper.make_graph(
        [*_heads(), *_caches(), *_attention()],
        "decoder",
        [
            helper.make_tensor_value_info("token", TensorProto.INT64, [1, 1]),
            *(_floats(f"past_{part}", shape) for part, shape in cache.items()),
        ],
        [_floats("logits", [1, 1, symbols]), *(_floats(f"present_{part}", cache[part]) for part in CACHED)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _floats(name: str, shape: list[int]) -> object:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _heads() -> list[NodeProto]:
    """Return the operators that make queries, keys and values of each head."""
    node = helper.make_node
    nodes = [node("Gather", ["embedding", "token"], ["x"])]
    for part in PARTS:
        nodes += [
            node("MatMul", ["x", f"w{part}"], [f"{part}_rows"]),
            node("Reshape", [f"{part}_rows", "split"], [f"{part}_split"]),
            node("Transpose", [f"{part}_split"], [f"{part}_new"], perm=[0, 2, 1, 3]),
        ]
    return nodes


def _caches() -> list[NodeProto]:
    """Return the operators that add a place to each cache."""
    nodes = []
    for part in CACHED:
        nodes += [
            helper.make_node("Concat", [f"past_{part}", f"{part}_new"], [f"{part}_longer"], axis=2),
            helper.make_node("Slice", [f"{part}_longer", "first", "last", "axis"], [f"present_{part}"]),
        ]
    return nodes


def _attention() -> list[NodeProto]:
    """Return the operators from queries and caches to logits."""
    node = helper.make_node
    return [
        node("Transpose", ["present_k"], ["turned"], perm=[0, 1, 3, 2]),
        node("MatMul", ["q_new", "turned"], ["sums"]),
        node("Mul", ["sums", "scale"], ["scores"]),
        node("Softmax", ["scores"], ["shares"], axis=-1),
        node("MatMul", ["shares", "present_v"], ["mixed"]),
        node("Transpose", ["mixed"], ["mixed_rows"], perm=[0, 2, 1, 3]),
        node("Reshape", ["mixed_rows", "joined"], ["whole"]),
        node("MatMul", ["whole", "wo"], ["projected"]),
        node("Add", ["projected", "x"], ["result"]),
        node("MatMul", ["result", "wl"], ["logits"]),
    ]
