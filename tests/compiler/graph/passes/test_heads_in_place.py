"""Products of two activations without the moves around them: which fall away, which stay, and the same bits."""

import numpy as np
import pytest

from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.parse import parse_graph
from vdla.compiler.graph.passes.heads_in_place import HeadsInPlace
from vdla.compiler.graph.verify import verify

WORDS = "p: int64[4, 1] = constant([[0], [30000], [22], [32640]])"
TABLE = f"t: int8[256] = constant({[(7 * number) % 200 - 100 for number in range(256)]})"


def graph_of(inputs: str, *lines: str) -> Graph:
    body = "".join(f"    {line}\n" for line in (WORDS, *lines))
    return parse_graph(f"def f({inputs}):\n{body}    return {lines[-1].split(':')[0]}\n")


def product(a: str, b: str, size: tuple[int, int, int], shape: tuple[int, ...], transposed: int = 0) -> str:
    """Return the product of stacks of matrices, as ToIntegers makes it of MatMul."""
    (m, n, k), heads = size, int(np.prod(shape[:-2]))

    def stacked(rows: int) -> tuple[int, ...]:
        return tuple(place for head in range(heads) for place in (head * rows, 0))

    return (
        f"Int8Products({a}, {b}, p, a_places={stacked(m)}, b_places={stacked(n if transposed else k)}, "
        f"places={stacked(m)}, shape={shape}, size={size}, transposed={transposed}, zeros=(0, 0))"
    )


CASES = {
    "queries, keys and values of one tensor": (
        graph_of(
            "x: int8[5, 24]",
            "i: int64 = constant(1)",
            "r: int8[1, 5, 3, 2, 4] = Reshape(x, shape=(1, 5, 3, 2, 4))",
            "g: int8[1, 5, 2, 4] = Gather(r, i, axis=2)",
            "k: int8[1, 2, 4, 5] = Transpose(g, perm=(0, 2, 3, 1))",
            "s: int8[1, 5, 1, 2, 4] = Slice(r, axes=(2,), ends=(1,), starts=(0,), steps=(1,))",
            "q: int8[1, 5, 2, 4] = Squeeze(s, axes=(2,))",
            "h: int8[1, 2, 5, 4] = Transpose(q, perm=(0, 2, 1, 3))",
            f"y: int8[1, 2, 5, 5] = {product('h', 'k', (5, 5, 4), (1, 2, 5, 5))}",
        ),
        ["Int8Products"],
        {"a_places": (0, 0, 0, 4), "b_places": (0, 8, 0, 12), "places": (0, 0, 5, 0), "transposed": 1},
    ),
    "heads that are joined behind": (
        graph_of(
            "a: int8[1, 2, 5, 6], b: int8[2, 6, 4]",
            f"z: int8[1, 2, 5, 4] = {product('a', 'b', (5, 4, 6), (1, 2, 5, 4))}",
            "u: int8[1, 5, 2, 4] = Transpose(z, perm=(0, 2, 1, 3))",
            "y: int8[5, 8] = Reshape(u, shape=(5, 8))",
        ),
        ["Int8Products"],
        {"places": (0, 0, 0, 4), "shape": (5, 8), "b_places": (0, 0, 6, 0), "transposed": 0},
    ),
    "some rows of a cache, which no accelerator reads in place": (
        graph_of(
            "a: int8[1, 2, 2, 4], c: int8[1, 2, 5, 6]",
            "v: int8[1, 2, 4, 6] = Slice(c, axes=(2,), ends=(5,), starts=(1,), steps=(1,))",
            f"y: int8[1, 2, 2, 6] = {product('a', 'v', (2, 6, 4), (1, 2, 2, 6))}",
        ),
        ["Slice", "Int8Products"],
        {"b_places": (0, 0, 4, 0)},
    ),
    "a part of a Split": (
        graph_of(
            "a: int8[5, 6], b: int8[6, 8]",
            "l: int8[6, 4]",
            "m: int8[6, 4]",
            "l, m = Split(b, axis=1, split=(4, 4))",
            f"y: int8[5, 4] = {product('a', 'm', (5, 4, 6), (5, 4))}",
        ),
        ["Int8Products"],
        {"b_places": (0, 4)},
    ),
    "elements that change alike on the way": (
        graph_of(
            "a: int8[2, 5, 6], b: int8[10, 6]",
            TABLE,
            "l: int8[2, 5, 6] = Int8Lookup(a, t)",
            "m: int8[2, 5, 6] = Int8Requantise(l, p)",
            "c: int8[2, 5, 6] = Reshape(b, shape=(2, 5, 6))",
            "d: int8[2, 6, 5] = Transpose(c, perm=(0, 2, 1))",
            f"y: int8[2, 5, 5] = {product('m', 'd', (5, 5, 6), (2, 5, 5))}",
        ),
        ["Int8Products"],
        {"a_places": (0, 0, 5, 0), "b_places": (0, 0, 5, 0), "transposed": 1},
    ),
    "keys that are turned back": (
        graph_of(
            "a: int8[5, 6], b: int8[6, 7]",
            "c: int8[7, 6] = Transpose(b, perm=(1, 0))",
            f"y: int8[5, 7] = {product('a', 'c', (5, 7, 6), (5, 7), 1)}",
        ),
        ["Int8Products"],
        {"transposed": 0},
    ),
    "queries of columns stay turned": (
        graph_of(
            "a: int8[6, 5], b: int8[6, 7]",
            "c: int8[5, 6] = Transpose(a, perm=(1, 0))",
            f"y: int8[5, 7] = {product('c', 'b', (5, 7, 6), (5, 7))}",
        ),
        ["Transpose", "Int8Products"],
        {"transposed": 0},
    ),
    "rows far apart stay as they are": (
        graph_of(
            "a: int8[5, 2, 6], b: int8[2, 6, 7]",
            "c: int8[2, 5, 6] = Transpose(a, perm=(1, 0, 2))",
            "d: int8[2, 6, 5] = Transpose(c, perm=(0, 2, 1))",
            "e: int8[2, 5, 6] = Transpose(d, perm=(0, 2, 1))",
            f"y: int8[2, 5, 7] = {product('e', 'b', (5, 7, 6), (2, 5, 7))}",
        ),
        ["Transpose", "Int8Products"],
        {"a_places": (0, 0, 5, 0)},
    ),
    "a result that two read": (
        graph_of(
            "a: int8[5, 6], b: int8[6, 7]",
            f"z: int8[5, 7] = {product('a', 'b', (5, 7, 6), (5, 7))}",
            "u: int8[1, 5, 7] = Reshape(z, shape=(1, 5, 7))",
            "v: int8[7, 5] = Transpose(z, perm=(1, 0))",
            "w: int8[1, 7, 5] = Reshape(v, shape=(1, 7, 5))",
            "y: int8[1, 7, 7] = " + product("w", "u", (7, 7, 5), (1, 7, 7)),
        ),
        ["Int8Products", "Transpose", "Int8Products"],
        {"shape": (1, 7, 7)},
    ),
}


@pytest.mark.parametrize("title", CASES)
def test_moves_around_products_fall_away(title):
    graph, left, attributes = CASES[title]
    changed = HeadsInPlace().run(graph)
    verify(changed)
    assert [node.op for node in changed.nodes] == left
    assert attributes.items() <= dict(changed.nodes[-1].attributes).items()
    assert HeadsInPlace().run(changed) == changed
    rng = np.random.default_rng(0)
    inputs = {name: rng.integers(-128, 128, type_.shape, np.int8) for name, type_ in graph.inputs.items()}
    (before,), (after,) = interpret(graph, inputs).values(), interpret(changed, inputs).values()
    assert np.array_equal(before, after)
