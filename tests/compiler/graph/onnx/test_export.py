"""Graphs that were exported are imported equal, and what ONNX has no form for is refused."""

import numpy as np
import pytest
from onnx import checker, helper

from tests.compiler.graph.onnx.networks import small_cnn
from vdla.compiler.graph.nodes import Graph, GraphError
from vdla.compiler.graph.onnx.export import export
from vdla.compiler.graph.onnx.load import load
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.passes.pipeline import INTEGERS, SIMPLIFY
from vdla.compiler.graph.quantise import quantise

OPERATORS = """\
def f(x: float32[1, 2, 4, 4]):
    a: float32[1, 2, 4, 4] = Clip(x, max=6.0, min=-0.1)
    b: float32[1, 2, 5, 4] = Pad(a, mode="constant", pads=(0, 0, 1, 0, 0, 0, 0, 0), value=0.5)
    c: float32[1, 2, 2, 4] = Slice(b, axes=(2,), ends=(4,), starts=(0,), steps=(2,))
    d: float32[1, 2, 2, 2]
    e: float32[1, 2, 2, 2]
    d, e = Split(c, axis=3, split=(2, 2))
    g: float32[1, 2, 2, 2] = MaxPool(x, ceil_mode=0, dilations=(1, 1), kernel_shape=(2, 2), pads=(0, 0, 0, 0), strides=(2, 2))
    h: float32[1, 2, 2, 2] = Sum(d, e, g)
    i: float32[1, 2, 2, 2] = LRN(h, alpha=0.1, beta=0.75, bias=1.0, size=3)
    j: float32[2, 2, 2] = Squeeze(i, axes=(0,))
    k: float32[2, 2, 2, 1] = Unsqueeze(j, axes=(3,))
    m: float32[2, 2, 2, 3] = Tile(k, repeats=(1, 1, 1, 3))
    n: float32[2, 2, 1, 3] = ReduceMean(m, axes=(2,), keepdims=1)
    o: float32[2, 2, 2, 3] = Expand(n, shape=(2, 2, 2, 3))
    p: int32[2, 2, 2, 3] = Cast(o, to="int32")
    q: float32[2, 2, 2, 3] = Cast(p, to="float32")
    r: float32[8, 3] = Reshape(q, shape=(8, 3))
    s: float32[3, 8] = Transpose(r, perm=(1, 0))
    y: float32[3, 8] = Softmax(s, axis=1)
    return y
"""


def quantised_cnn() -> Graph:
    graph = SIMPLIFY.run(load(small_cnn()))
    rng = np.random.default_rng(0)
    return quantise(graph, [{"input.1": rng.normal(size=(1, 3, 16, 16)).astype(np.float32)}]).graph


@pytest.mark.parametrize(
    "make", [lambda: parse_graph(OPERATORS), quantised_cnn], ids=["operators", "quantised network"]
)
def test_what_was_exported_is_imported_equal(make):
    graph = make()
    model = export(graph)
    checker.check_model(model, full_check=True)
    assert model.ir_version == helper.find_min_ir_version_for(model.opset_import)
    assert load(model) == graph


def test_an_operator_of_the_accelerator_is_refused():
    with pytest.raises(
        GraphError,
        match=r"^Int8\w+ '\w+' cannot be exported: operator set 20 of ONNX has no operator Int8\w+$",
    ):
        export(INTEGERS.run(quantised_cnn()))


def test_an_attribute_that_onnx_has_in_another_form_is_refused():
    graph = parse_graph(
        'def f():\n    y: float32[2] = ConstantOfShape(dtype="float32", shape=(2,), value=1.0)\n    '
        "return y\n"
    )
    with pytest.raises(
        GraphError,
        match=r"^ConstantOfShape 'y' cannot be exported: ConstantOfShape of ONNX has no attribute dtype$",
    ):
        export(graph)
