"""Attentions of ONNX Runtime and their embedding of positions, compared with its kernels."""

import numpy as np
import pytest
from onnx import ModelProto, TensorProto

from tests.compiler.graph.onnx.networks import model, node
from tests.compiler.graph.onnx.onnxruntime_results import MICROSOFT, check, fused
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.attention import ATTENTIONS, STANDARD
from vdla.compiler.graph.onnx.load import load

RNG = np.random.default_rng(0)
BATCH, ROWS, KEYS, HEADS, WIDE = 2, 5, 7, 4, 24
WIDTH = WIDE // HEADS


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def integers(proto: ModelProto, *names: str) -> ModelProto:
    """Set the type of inputs to int32."""
    for value in proto.graph.input:
        if value.name in names:
            value.type.tensor_type.elem_type = TensorProto.INT32
    return proto


MASKS = {
    "none": None,
    "lengths": np.array([4, 7], np.int32),
    "keys": np.array([[1, 1, 0, 1, 1, 1, 0], [0, 1, 1, 1, 1, 1, 1]], np.int32),
    "queries and keys": RNG.integers(0, 2, (BATCH, ROWS, KEYS)).astype(np.int32),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("inputs", ["q k v", "q k v b", "q k v - {m} a"])
def test_separate_queries_keys_and_values(inputs, mask):
    fed = {"q": normal(BATCH, ROWS, WIDE), "k": normal(BATCH, KEYS, WIDE), "v": normal(BATCH, KEYS, WIDE)}
    names = inputs.format(m="m" if MASKS[mask] is not None else "-")
    if MASKS[mask] is not None:
        fed["m"] = MASKS[mask]
        names = names if "m" in names.split() else f"{names}{'' if 'b' in names else ' -'} m"
    if "a" in names.split():
        fed["a"] = normal(1, HEADS, ROWS, KEYS)
    proto = fused("MultiHeadAttention", names, fed, {"b": normal(3 * WIDE)}, num_heads=HEADS)
    check(integers(proto, "m"), fed)


@pytest.mark.parametrize("scale", [None, 0.25])
@pytest.mark.parametrize("causal", [0, 1])
def test_keys_and_values_after_a_cache(causal, scale):
    fed = {name: normal(BATCH, ROWS, WIDE) for name in "qkv"}
    fed |= {name: normal(BATCH, HEADS, 3, WIDTH) for name in ("pk", "pv")}
    given = {"num_heads": HEADS, "unidirectional": causal} | ({} if scale is None else {"scale": scale})
    proto = fused("MultiHeadAttention", "q k v - - - pk pv", fed, {}, "y nk nv", **given)
    check(proto, fed)


@pytest.mark.parametrize("sizes", [None, [24, 24, 8]])
@pytest.mark.parametrize("inputs", ["x w b", "x w b m", "x w b - - a"])
@pytest.mark.parametrize("causal", [0, 1])
def test_projected_queries_keys_and_values(causal, inputs, sizes):
    whole = sum(sizes or [WIDE] * 3)
    fed = {"x": normal(BATCH, ROWS, 10), "m": np.array([[1, 1, 1, 0, 1], [1, 1, 1, 1, 0]], np.int32)}
    fed |= {"a": normal(BATCH, HEADS, ROWS, ROWS)}
    fed = {name: array for name, array in fed.items() if name in inputs.split()}
    given = {"num_heads": HEADS, "unidirectional": causal} | ({"qkv_hidden_sizes": sizes} if sizes else {})
    proto = fused("Attention", inputs, fed, {"w": normal(10, whole), "b": normal(whole)}, **given)
    check(integers(proto, "m"), fed)


@pytest.mark.parametrize("each", [False, True])
def test_quantised_projections(each):
    columns, limits = 3 * WIDE, np.iinfo(np.int8)
    constants = {
        "w": RNG.integers(limits.min, limits.max, (10, columns)).astype(np.int8),
        "b": normal(columns),
        "s": np.float32(0.02),
        "t": RNG.uniform(0.01, 0.02, columns).astype(np.float32) if each else np.float32(0.01),
        "z": np.array(3, np.uint8),
        "u": np.zeros(columns, np.int8) if each else np.array(2, np.int8),
    }
    fed = {"x": RNG.integers(0, 100, (BATCH, ROWS, 10)).astype(np.uint8)}
    proto = fused("QAttention", "x w b s t - z u", fed, constants, num_heads=HEADS)
    proto.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    check(proto, fed)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize(("rotary", "past"), [(0, 0), (1, 0), (1, 3), (0, 3)])
@pytest.mark.parametrize("shared", [1, 2, 4])
def test_heads_of_queries_share_keys(shared, rotary, past, interleaved):
    width, batch = 16, 1 if past else BATCH  # as onnxruntime asks
    fed = {"q": normal(batch, ROWS, HEADS * width)}
    fed |= {name: normal(batch, ROWS, shared * width) for name in "kv"}
    caches = "- -"
    if past:
        fed |= {name: normal(batch, shared, past, width) for name in ("pk", "pv")}
        caches = "pk pv"
    total = past + ROWS
    constants = {
        "n": np.full(batch, total - 1, np.int32),
        "t": np.array(total, np.int32),
        "c": np.cos(normal(16, width // 2)),
        "s": np.sin(normal(16, width // 2)),
    }
    proto = fused(
        "GroupQueryAttention",
        f"q k v {caches} n t{' c s' if rotary else ''}",
        fed,
        constants,
        "y nk nv",
        num_heads=HEADS,
        kv_num_heads=shared,
        do_rotary=rotary,
        rotary_interleaved=interleaved,
    )
    check(proto, fed)


@pytest.mark.parametrize("domain", [MICROSOFT, ""])
@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("shape", [(BATCH, ROWS, WIDE), (BATCH, HEADS, ROWS, WIDTH)])
@pytest.mark.parametrize("part", [0, 4])
def test_positions_rotate_pairs(part, shape, interleaved, domain):
    pairs = (part or WIDTH) // 2
    constants = {name: normal(16, pairs) for name in "cs"}
    constants["p"] = RNG.integers(0, 16, (BATCH, ROWS)).astype(np.int64)
    given = {"interleaved": interleaved, "rotary_embedding_dim": part}
    given |= {"num_heads": HEADS} if part or not domain else {}
    names = "x p c s" if domain else "x c s p"
    proto = model(
        [node("RotaryEmbedding", names, "y", domain=domain, **given)], {"x": shape}, ["y"], constants
    )
    if not domain:
        proto.opset_import[0].version = 23
        proto.ir_version = 10
    check(proto, {"x": normal(*shape)})


STANDARD_ATTENTION = {"q_num_heads": HEADS, "kv_num_heads": HEADS}
DEFINED = {
    "attention": ("Attention", "x x x", STANDARD_ATTENTION),
    "causal attention": ("Attention", "x x x", {**STANDARD_ATTENTION, "is_causal": 1}),
    "group normalisation": ("GroupNormalization", "i g b", {"num_groups": 4}),
    "root mean square": ("RMSNormalization", "x w", {"axis": -1}),
    "swish of the default slope": ("Swish", "x", {}),
    "swish": ("Swish", "x", {"alpha": 0.5}),
}


@pytest.mark.parametrize("case", DEFINED)
def test_operators_become_their_definitions_as_functions(case):
    op, names, attributes = DEFINED[case]
    fed = {"x": normal(BATCH, ROWS, WIDE), "i": normal(BATCH, 8, 3, 3)}
    fed = {name: fed[name] for name in fed if name in names.split()}
    constants = {"w": normal(WIDE), "g": normal(8), "b": normal(8)}
    shapes = {name: array.shape for name, array in fed.items()}
    proto = model([node(op, names, "y", **attributes)], shapes, ["y"], constants)
    proto.opset_import[0].version = 24
    proto.ir_version = 10
    graph = check(proto, fed)
    assert "Where" not in [each.op for each in graph.nodes], "no row of the scores is masked"
    assert {each.name for each in graph.nodes} == {proto.graph.node[0].name}


REFUSED = {
    "a mask of another shape": (
        "q k v - m",
        {"m": np.ones((BATCH, KEYS + 1), np.int32)},
        "mask 'm' of the shape",
    ),
    "heads that do not divide": (
        "q k v",
        {"num_heads": 5},
        "5 heads, which do not divide the width 24 of 'q'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case, without_onnxruntime):
    inputs, change, message = REFUSED[case]
    fed = {name: normal(BATCH, KEYS, WIDE) for name in "qkv"}
    fed |= {name: array for name, array in change.items() if isinstance(array, np.ndarray)}
    heads = change.get("num_heads", HEADS)
    proto = integers(fused("MultiHeadAttention", inputs, fed, {}, num_heads=heads), "m")
    with pytest.raises(GraphError, match=message):
        load(proto)


def test_lengths_that_are_computed_are_left_to_onnxruntime(without_onnxruntime):
    fed = {name: normal(BATCH, ROWS, WIDE) for name in "qkv"} | {"n": np.full(BATCH, ROWS - 1, np.int32)}
    proto = fused(
        "GroupQueryAttention",
        "q k v - - n t",
        fed,
        {"t": np.array(ROWS, np.int32)},
        num_heads=HEADS,
        kv_num_heads=HEADS,
    )
    with pytest.raises(GraphError, match=r"seqlens_k \('n'\) is computed while the network runs"):
        load(integers(proto, "n"))


def test_every_operator_is_tried():
    tried = {"Attention", "GroupQueryAttention", "MultiHeadAttention", "QAttention", "RotaryEmbedding"}
    assert set(ATTENTIONS) == tried
    assert set(STANDARD) == {"RotaryEmbedding"}
