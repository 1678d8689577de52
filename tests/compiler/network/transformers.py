"""Small float transformers, as exporters write them."""

from collections.abc import Callable, Mapping

import numpy as np

from tests.compiler.graph.onnx.networks import model, node
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.onnx.load import load

ROWS, HEADS, WIDTH = 6, 2, 16
HEAD = WIDTH // HEADS
LOWEST = float(np.finfo(np.float32).min)
CAUSAL = np.tril(np.ones((1, 1, ROWS, ROWS), bool))


class FloatNet:
    """An ONNX model in the making."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[object] = []
        self.constants: dict[str, np.ndarray] = {}

    def op(self, op: str, *inputs: str, **attributes: object) -> str:
        """Add an operator; return its result."""
        result = f"v{len(self.nodes)}"
        self.nodes.append(node(op, " ".join(inputs), result, **attributes))
        return result

    def constant(self, values: object) -> str:
        """Add a constant of float32, or of its own type if it is an array."""
        array = values if isinstance(values, np.ndarray) else np.array(values, np.float32)
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def numbers(self, *extents: int) -> str:
        """Add constant extents."""
        return self.constant(np.array(extents, np.int64))

    def weights(self, *shape: int) -> str:
        """Add random weights."""
        return self.constant(self.rng.normal(0, shape[0] ** -0.5, shape).astype(np.float32))

    def dense(self, x: str, outputs: int, inputs: int = WIDTH) -> str:
        """Add a matrix product with random weights."""
        return self.op("MatMul", x, self.weights(inputs, outputs))

    def normalised(self, x: str) -> str:
        """Add a layer normalisation."""
        vectors = (self.constant(self.rng.uniform(0.5, 1.5, WIDTH).astype(np.float32)) for _ in range(2))
        return self.op("LayerNormalization", x, *vectors, axis=-1)

    def heads(self, x: str) -> str:
        """Divide rows into heads."""
        parts = self.op("Reshape", x, self.numbers(1, ROWS, HEADS, HEAD))
        return self.op("Transpose", parts, perm=[0, 2, 1, 3])

    def rotated(self, x: str, cosine: str = "", sine: str = "") -> str:
        """Add a rotary embedding of heads (Su et al., RoFormer, 2021), of positions from 0 on by default."""
        angles = np.outer(np.arange(ROWS), 100.0 ** -np.linspace(0, 1, HEAD // 2))
        angles = np.concatenate((angles, angles), 1)[None, None].astype(np.float32)
        cosine, sine = cosine or self.constant(np.cos(angles)), sine or self.constant(np.sin(angles))
        left, right = (
            self.op("Slice", x, self.numbers(begin), self.numbers(begin + HEAD // 2), self.numbers(3))
            for begin in (0, HEAD // 2)
        )
        turned = self.op("Concat", self.op("Neg", right), left, axis=-1)
        return self.op("Add", self.op("Mul", x, cosine), self.op("Mul", turned, sine))

    def attention(self, x: str, mask: Callable[[str], str] | None = None, *, rotary: bool = False) -> str:
        """Add an attention.

        Args:
            mask: adds what excludes scores.
        """
        query, key, value = (self.heads(self.dense(x, WIDTH)) for _ in range(3))
        if rotary:
            query, key = self.rotated(query), self.rotated(key)
        scores = self.op("MatMul", query, self.op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = self.op("Div", scores, self.constant(HEAD**0.5))
        powers = self.op("Softmax", scores if mask is None else mask(scores), axis=-1)
        joined = self.op("Transpose", self.op("MatMul", powers, value), perm=[0, 2, 1, 3])
        return self.dense(self.op("Reshape", joined, self.numbers(1, ROWS, WIDTH)), WIDTH)

    def graph(self, result: str, inputs: Mapping[str, tuple[int, ...]], *others: str) -> Graph:
        """Return the imported graph."""
        return load(model(self.nodes, inputs, [result, *others], self.constants, opset=17))


def encoder(mask: Callable[[FloatNet, str], str] | None = None, *, rotary: bool = False) -> Graph:
    """Return an encoder layer that normalises what it reads, and a dense layer.

    Args:
        mask: adds what excludes scores to the network; "mask" is an input, 1 for each row that counts.
    """
    net = FloatNet()
    excluded = None if mask is None else lambda scores: mask(net, scores)
    x = net.op("Add", "x", net.attention(net.normalised("x"), excluded, rotary=rotary))
    inner = net.op("Relu", net.dense(net.normalised(x), 2 * WIDTH))
    x = net.op("Add", x, net.dense(inner, WIDTH, 2 * WIDTH))
    return net.graph(net.dense(net.normalised(x), 5), {"x": (1, ROWS, WIDTH), "mask": (1, ROWS)})


def padding(net: FloatNet, scores: str) -> str:
    """Add a mask that the host computes from an input, as of BERT."""
    kept = net.op("Unsqueeze", "mask", net.numbers(1, 2))
    excluded = net.op("Mul", net.op("Sub", net.constant(1.0), kept), net.constant(LOWEST))
    return net.op("Add", scores, excluded)


def causal(net: FloatNet, scores: str) -> str:
    """Add a constant mask."""
    return net.op("Add", scores, net.constant(np.where(CAUSAL, 0, LOWEST).astype(np.float32)))


def endless(net: FloatNet, scores: str) -> str:
    """Add a constant mask of -infinity."""
    return net.op("Add", net.constant(np.where(CAUSAL, 0, -np.inf).astype(np.float32)), scores)


def chosen(net: FloatNet, scores: str) -> str:
    """Exclude scores by a Where, as of GPT-2."""
    return net.op("Where", net.constant(CAUSAL), scores, net.constant(-1e4))


def image_classifier() -> Graph:
    """Return a vision transformer: patches, a class token, positions, an attention, the class token's row."""
    net = FloatNet()
    patches = net.op("Conv", "x", net.weights(WIDTH, 3, 2, 2), kernel_shape=[2, 2], strides=[2, 2])
    rows = net.op("Reshape", patches, net.numbers(1, WIDTH, ROWS - 1))
    rows = net.op("Concat", net.weights(1, 1, WIDTH), net.op("Transpose", rows, perm=[0, 2, 1]), axis=1)
    x = net.op("Add", rows, net.weights(1, ROWS, WIDTH))
    x = net.op("Add", x, net.attention(net.normalised(x)))
    token = net.op("Gather", net.normalised(x), net.constant(np.array(0)), axis=1)
    return net.graph(net.dense(token, 5), {"x": (1, 3, 2, 2 * ROWS - 2)})


def decoding_step(caches: int) -> Graph:
    """Return a step of a decoder with so many caches of keys and values, of which two heads share each."""
    net, heads = FloatNet(), 2 * caches
    row, width = net.normalised("x"), heads * HEAD
    query = net.op("Reshape", net.dense(row, width), net.numbers(1, heads, 1, HEAD))
    query = net.op("Reshape", net.rotated(query, "cos", "sin"), net.numbers(1, caches, 2, HEAD))
    key, value = (
        net.op("Reshape", net.dense(row, caches * HEAD), net.numbers(1, caches, 1, HEAD)) for _ in range(2)
    )
    parts = {"keys": net.rotated(key, "cos", "sin"), "values": value}
    ends = net.numbers(1), net.numbers(ROWS + 1), net.numbers(2)
    keys, values = (
        net.op("Slice", net.op("Concat", past, part, axis=2), *ends) for past, part in parts.items()
    )
    scores = net.op("MatMul", query, net.op("Transpose", keys, perm=[0, 1, 3, 2]))
    scores = net.op("Div", scores, net.constant(HEAD**0.5))
    powers = net.op("Softmax", net.op("Add", scores, "mask"), axis=-1)
    rows = net.op("Reshape", net.op("MatMul", powers, values), net.numbers(1, 1, width))
    x = net.op("Add", "x", net.dense(rows, WIDTH, width))
    inputs = {"x": (1, 1, WIDTH), **dict.fromkeys(parts, (1, caches, ROWS, HEAD))}
    turns = {"cos": (1, 1, 1, HEAD), "sin": (1, 1, 1, HEAD), "mask": (1, 1, 1, ROWS)}
    return net.graph(net.dense(net.normalised(x), 5), inputs | turns, keys, values)


NETWORKS: Mapping[str, Callable[[], Graph]] = {
    "no mask": encoder,
    "padding": lambda: encoder(padding),
    "causal": lambda: encoder(causal),
    "causal, of -infinity": lambda: encoder(endless),
    "causal, chosen": lambda: encoder(chosen),
    "rotary": lambda: encoder(causal, rotary=True),
    "image classifier": image_classifier,
    "decoding step": lambda: decoding_step(1),
    "decoding step with shared keys": lambda: decoding_step(2),
}


def samples_of(graph: Graph, count: int, seed: int = 1) -> list[dict[str, np.ndarray]]:
    """Return random inputs; of a mask, some last elements are 0."""
    rng = np.random.default_rng(seed)
    inputs = []
    for _ in range(count):
        values = {
            name: rng.normal(size=type_.shape).astype(np.float32) for name, type_ in graph.inputs.items()
        }
        if "mask" in values:
            kept = np.arange(ROWS) < rng.integers(2, ROWS + 1)
            masks = kept if values["mask"].ndim == 2 else np.where(kept[::-1], 0, LOWEST)
            values["mask"] = masks.reshape(values["mask"].shape).astype(np.float32)
        inputs.append(values)
    return inputs
