"""Random networks of float operators, which have shapes and sizes that any tool could write."""

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from models.run import Tensors
from onnx import ModelProto

from generators.growing import IMAGE, ROWS, VOLUME, Growing, Value

MOST_CHANNELS, MOST_SIDE, MOST_ROWS = 24, 12, 12
Step = Callable[[Growing, Value], None]


# Images and volumes


def _conv(g: Growing, x: Value) -> None:
    n, c, *sides = x.shape
    groups = g.rng.choice([1, 1, 1, c, *(d for d in (2, 3, 4) if c % d == 0)])
    outputs = groups * g.rng.randint(1, max(1, MOST_CHANNELS // groups))
    kernel = [g.rng.choice([k for k in (1, 2, 3, 5) if k <= side]) for side in sides]
    dilations = [
        g.rng.choice([1, 1, 2]) if 2 * (k - 1) < side else 1 for k, side in zip(kernel, sides, strict=True)
    ]
    strides, pads = [g.rng.choice([1, 1, 2]) for _ in sides], [g.rng.randint(0, 2) for _ in (*sides, *sides)]
    inputs = [x.name, g.weights(outputs, c // groups, *kernel, fan_in=c // groups * math.prod(kernel))]
    if g.rng.random() < 0.6:
        inputs.append(g.constant(outputs))
    sizes = [
        (side + pads[axis] + pads[axis + len(sides)] - dilations[axis] * (kernel[axis] - 1) - 1)
        // strides[axis]
        + 1
        for axis, side in enumerate(sides)
    ]
    name = g.node(
        "Conv", *inputs, kernel_shape=kernel, strides=strides, pads=pads, dilations=dilations, group=groups
    )
    g.keep(name, n, outputs, *sizes)


def _conv_transpose(g: Growing, x: Value) -> None:
    n, c, h, w = x.shape
    if max(h, w) > MOST_SIDE // 2:
        return
    outputs, kernel, stride = g.rng.randint(1, 8), g.rng.randint(2, 4), g.rng.choice([1, 2])
    weights = g.weights(c, outputs, kernel, kernel, fan_in=c * 2)
    name = g.node("ConvTranspose", x.name, weights, kernel_shape=[kernel] * 2, strides=[stride] * 2)
    g.keep(name, n, outputs, *((size - 1) * stride + kernel for size in (h, w)))


def _batch_norm(g: Growing, x: Value) -> None:
    c = x.shape[1]
    parameters = [g.constant(c, least=0.5), g.constant(c), g.constant(c), g.constant(c, least=0.5)]
    g.keep(g.node("BatchNormalization", x.name, *parameters, epsilon=1e-5), *x.shape)


def _pool(g: Growing, x: Value) -> None:
    n, c, *sides = x.shape
    kernel = [g.rng.randint(1, min(3, side)) for side in sides]
    strides = [g.rng.randint(1, 2) for _ in sides]
    pads = [g.rng.randint(0, k - 1) if g.rng.random() < 0.5 else 0 for k in kernel * 2]
    op = g.rng.choice(["AveragePool", "MaxPool"])
    attributes = {"count_include_pad": g.rng.randint(0, 1)} if op == "AveragePool" else {}
    ceil = g.rng.choice([0, 0, 1]) if not any(pads) and op == "MaxPool" else 0
    free = [side + pads[axis] + pads[axis + len(sides)] - kernel[axis] for axis, side in enumerate(sides)]
    if any(-(-f // s) * s >= side for f, s, side in zip(free, strides, sides, strict=True)):
        ceil = 0  # the shape inference of onnx counts a last window that begins behind the input
    sizes = [(-(-f // s) if ceil else f // s) + 1 for f, s in zip(free, strides, strict=True)]
    name = g.node(op, x.name, kernel_shape=kernel, strides=strides, pads=pads, ceil_mode=ceil, **attributes)
    g.keep(name, n, c, *sizes)


def _global_pool(g: Growing, x: Value) -> None:
    op = g.rng.choice(["GlobalAveragePool", "GlobalAveragePool", "GlobalMaxPool"])
    g.keep(g.node(op, x.name), *x.shape[:2], *(1 for _ in x.shape[2:]))


def _instance_norm(g: Growing, x: Value) -> None:
    c = x.shape[1]
    if math.prod(x.shape[2:]) > 1:
        parameters = g.constant(c, least=0.5), g.constant(c)
        g.keep(g.node("InstanceNormalization", _varied(g, x), *parameters), *x.shape)


def _varied(g: Growing, x: Value) -> str:
    """Add a constant for each place. A normalisation of equal values is rounding errors, which differ."""
    return g.node("Add", x.name, g.constant(*x.shape[2:]))


def _group_norm(g: Growing, x: Value) -> None:
    """A group normalisation in pieces, as exporters write it."""
    n, c, *sides = x.shape
    if math.prod(sides) == 1:
        return
    groups = g.rng.choice([d for d in range(1, c + 1) if c % d == 0])
    flat = g.node("Reshape", _varied(g, x), g.builder.integers(n, groups, -1))
    unit_scale, zero_bias = g.constant(groups, least=1, most=1), g.constant(groups, least=0, most=0)
    normal = g.node("InstanceNormalization", flat, unit_scale, zero_bias)
    image = g.node("Reshape", normal, g.builder.integers(n, c, *sides))
    scale, bias = (g.constant(c, *(1 for _ in sides)) for _ in range(2))
    g.keep(g.node("Add", g.node("Mul", image, scale), bias), *x.shape)


# Images


def _squeeze_and_excite(g: Growing, x: Value) -> None:
    c = x.shape[1]
    mean = g.node("GlobalAveragePool", x.name)
    small = g.node("Conv", mean, g.weights(4, c, 1, 1, fan_in=c), g.constant(4), kernel_shape=[1, 1])
    large = g.node("Conv", g.node("Relu", small), g.weights(c, 4, 1, 1, fan_in=4), kernel_shape=[1, 1])
    g.keep(g.node("Mul", x.name, g.node("Sigmoid", large)), *x.shape)


def _resize(g: Growing, x: Value) -> None:
    n, c, h, w = x.shape
    if max(h, w) > MOST_SIDE:
        return
    scales = g.builder.constant(np.float32([1, 1, 2, 2]))
    attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    g.keep(g.node("Resize", x.name, "", scales, **attributes), n, c, 2 * h, 2 * w)


def _depth_to_space(g: Growing, x: Value) -> None:
    n, c, h, w = x.shape
    if c % 4 == 0:
        g.keep(g.node("DepthToSpace", x.name, blocksize=2, mode="CRD"), n, c // 4, 2 * h, 2 * w)


def _pad(g: Growing, x: Value) -> None:
    n, c, h, w = x.shape
    before, behind = g.rng.randint(0, 1), g.rng.randint(0, 2)
    pads = g.builder.integers(0, 0, before, before, 0, 0, behind, behind)
    g.keep(g.node("Pad", x.name, pads), n, c, h + before + behind, w + before + behind)


def _flatten(g: Growing, x: Value) -> None:
    n, *rest = x.shape
    if math.prod(rest) <= 1024:
        op, more = g.rng.choice([("Flatten", ()), ("Reshape", (g.builder.integers(n, -1),))])
        g.keep(g.node(op, x.name, *more), n, math.prod(rest))


def _image_to_rows(g: Growing, x: Value) -> None:
    n, c, h, w = x.shape
    flat = g.node("Reshape", x.name, g.builder.integers(n, c, h * w))
    g.keep(g.node("Transpose", flat, perm=[0, 2, 1]), n, h * w, c)


# Rows


def _matmul(g: Growing, x: Value) -> None:
    k, n = x.shape[-1], g.rng.randint(1, 40)
    name = g.node("MatMul", x.name, g.weights(k, n, fan_in=k))
    if g.rng.random() < 0.6:
        operands = [name, g.constant(n)]
        g.rng.shuffle(operands)
        name = g.node("Add", *operands)
    g.keep(name, *x.shape[:-1], n)


def _gemm(g: Growing, x: Value) -> None:
    if len(x.shape) != 2:
        return
    k, n, turned = x.shape[-1], g.rng.randint(1, 40), g.rng.randint(0, 1)
    inputs = [x.name, g.weights(*((n, k) if turned else (k, n)), fan_in=k)]
    if g.rng.random() < 0.7:
        inputs.append(g.constant(n))
    factors = {"alpha": g.rng.choice([1.0, 1.0, 0.5]), "beta": g.rng.choice([1.0, 1.0, 2.0])}
    g.keep(g.node("Gemm", *inputs, transB=turned, **factors), x.shape[0], n)


def _attention(g: Growing, x: Value) -> None:
    if len(x.shape) != 3 or x.shape[1] == 1:  # see _softmax
        return
    turned = g.node("Transpose", x.name, perm=[0, 2, 1])
    scores = g.node("MatMul", x.name, turned)
    scaled = g.node("Mul", scores, g.builder.constant(np.float32(x.shape[-1] ** -0.5)))
    if g.rng.random() < 0.5:  # later positions are masked
        mask = np.triu(np.full((x.shape[1],) * 2, g.rng.choice([-20, -1e4]), np.float32), 1)
        scaled = g.node("Add", scaled, g.builder.constant(mask))
    g.keep(g.node("MatMul", g.node("Softmax", scaled, axis=-1), x.name), *x.shape)


def _layer_norm(g: Growing, x: Value) -> None:
    width = x.shape[-1]
    g.keep(g.node("LayerNormalization", x.name, g.constant(width), g.constant(width), axis=-1), *x.shape)


def _written_norm(g: Growing, x: Value) -> None:
    """A layer normalisation in pieces, as exporters write it."""
    width, two = x.shape[-1], g.builder.constant(np.float32(2))
    centred = g.node("Sub", x.name, g.node("ReduceMean", x.name, axes=[-1]))
    squares = g.rng.choice([("Pow", centred, two), ("Mul", centred, centred)])
    variance = g.node("ReduceMean", g.node(*squares), axes=[-1])
    root = g.node("Sqrt", g.node("Add", variance, g.builder.constant(np.float32(1e-2))))
    normal = g.node("Mul", g.node("Div", centred, root), g.constant(width))
    g.keep(g.node("Add", normal, g.constant(width)), *x.shape)


def _written_root_mean_square_norm(g: Growing, x: Value) -> None:
    """A normalisation by the root of the mean of squares, in pieces, as exporters write it."""
    mean = g.node("ReduceMean", g.node("Mul", x.name, x.name), axes=[-1])
    root = g.node("Sqrt", g.node("Add", mean, g.builder.constant(np.float32(1e-2))))
    inverse = g.rng.choice([("Div", x.name, root), ("Mul", x.name, g.node("Reciprocal", root))])
    g.keep(g.node("Mul", g.node(*inverse), g.constant(x.shape[-1])), *x.shape)


GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _recurrence(g: Growing, x: Value) -> None:
    """A recurrence over rows as its time steps: all states, or the last states."""
    steps, width = math.prod(x.shape[:-1]), x.shape[-1]
    if steps > MOST_ROWS:
        return
    op, hidden = g.rng.choice([*GATES]), g.rng.randint(1, 20)
    direction = g.rng.choice(["forward", "forward", "reverse", "bidirectional"])
    ways, rows = 1 + (direction == "bidirectional"), GATES[op] * hidden
    inputs = [
        g.node("Reshape", x.name, g.builder.integers(steps, 1, width)),
        g.weights(ways, rows, width, fan_in=width),
        g.weights(ways, rows, hidden, fan_in=hidden),
    ]
    if g.rng.random() < 0.7:
        inputs.append(g.constant(ways, 2 * rows))
    attributes = {"linear_before_reset": g.rng.randint(0, 1)} if op == "GRU" else {}
    outputs = g.builder.nodes(op, 2, *inputs, hidden_size=hidden, direction=direction, **attributes)
    if g.rng.random() < 0.7:
        turned = g.node("Transpose", outputs[0], perm=[0, 2, 1, 3])
        g.keep(g.node("Reshape", turned, g.builder.integers(steps, -1)), steps, ways * hidden)
    else:
        g.keep(g.node("Reshape", outputs[1], g.builder.integers(ways, hidden)), ways, hidden)


def _softmax(g: Growing, x: Value) -> None:
    if (
        x.shape[-1] == 1
    ):  # in uint8 onnxruntime's QLinearSoftmax makes 0 of it: 256 with the scale 1/256 wraps
        return
    g.keep(g.node("Softmax", x.name, axis=-1), *x.shape)


def _reshape_rows(g: Growing, x: Value) -> None:
    rows = int(np.prod(x.shape[:-1]))
    shape = g.rng.choice([(rows, x.shape[-1]), (1, rows, x.shape[-1])])
    g.keep(g.node("Reshape", x.name, g.builder.integers(*shape)), *shape)


# Both


UNARY = (
    "Abs",
    "Ceil",
    "Cos",
    "Elu",
    "Erf",
    "Floor",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Neg",
    "Relu",
    "Relu",
)
UNARY += ("Round", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Tanh", "Exp", "Identity", "Sqrt", "Log")
UNARY += ("Reciprocal",)
POSITIVE = ("Log", "Reciprocal", "Sqrt")


def _unary(g: Growing, x: Value) -> None:
    op, name = g.rng.choice(UNARY), x.name
    if op in POSITIVE:
        name = g.node("Add", g.node("Sigmoid", name), g.builder.scalar(0.5))
    elif op == "Exp":
        name = g.node("Clip", name, g.builder.scalar(-4), g.builder.scalar(2))
    g.keep(g.node(op, name), *x.shape)


def _clip(g: Growing, x: Value) -> None:
    low, high = (g.builder.scalar(bound) for bound in (g.rng.choice([0, -1]), g.rng.choice([1, 6])))
    g.keep(g.node("Clip", x.name, low, high), *x.shape)


def _silu(g: Growing, x: Value) -> None:
    gate = g.rng.choice(["Sigmoid", "HardSigmoid", "Tanh"])
    g.keep(g.node("Mul", x.name, g.node(gate, x.name)), *x.shape)


def _prelu(g: Growing, x: Value) -> None:
    g.keep(g.node("PRelu", x.name, g.constant(*_by_channel(x))), *x.shape)


def _by_channel(x: Value) -> tuple[int, ...]:
    """Return the shape of a parameter per channel."""
    return (x.shape[1], *(1 for _ in x.shape[2:])) if x.has_channels else (x.shape[-1],)


def _change_channels(g: Growing, x: Value) -> None:
    shape = g.rng.choice([(), (1,), _by_channel(x)])
    op = g.rng.choice(["Add", "Div", "Mul", "Sub"])
    operands = [x.name, g.constant(*shape, least=0.5) if op == "Div" else g.constant(*shape)]
    if op != "Div":
        g.rng.shuffle(operands)
    g.keep(g.node(op, *operands), *x.shape)


def _two(g: Growing, x: Value) -> None:
    others = [value for value in g.values if value.shape == x.shape]
    op = g.rng.choice(["Add", "Add", "Add", "Mul", "Sub", "Max", "Min", "Mean", "Sum"])
    g.keep(g.node(op, x.name, g.rng.choice(others).name), *x.shape)


def _concat(g: Growing, x: Value) -> None:
    axis = 1 if x.has_channels else g.rng.choice([len(x.shape) - 1, g.rng.randrange(len(x.shape))])
    rest = x.shape[:axis] + x.shape[axis + 1 :]
    others = [
        v for v in g.values if len(v.shape) == len(x.shape) and v.shape[:axis] + v.shape[axis + 1 :] == rest
    ]
    parts = [x, *(g.rng.choice(others) for _ in range(g.rng.randint(1, 2)))]
    total = sum(part.shape[axis] for part in parts)
    if total <= 2 * MOST_CHANNELS:
        name = g.node("Concat", *(part.name for part in parts), axis=axis)
        g.keep(name, *x.shape[:axis], total, *x.shape[axis + 1 :])


def _split(g: Growing, x: Value) -> None:
    axis = 1 if x.has_channels else len(x.shape) - 1
    if x.shape[axis] % 2 == 0:
        half = (*x.shape[:axis], x.shape[axis] // 2, *x.shape[axis + 1 :])
        for name in g.builder.nodes("Split", 2, x.name, axis=axis):
            g.keep(name, *half)


def _slice(g: Growing, x: Value) -> None:
    axis = g.rng.randrange(1 if x.has_channels else 0, len(x.shape))
    if x.shape[axis] > 1:
        begin = g.rng.choice([1, g.rng.randrange(x.shape[axis])])
        end = g.rng.choice([x.shape[axis], g.rng.randint(begin + 1, x.shape[axis])])
        bounds = [g.builder.integers(each) for each in (begin, end, axis)]
        g.keep(g.node("Slice", x.name, *bounds), *x.shape[:axis], end - begin, *x.shape[axis + 1 :])


def _pick(g: Growing, x: Value) -> None:
    """Take one row of a matrix, as exporters write the last step of a recurrence."""
    axis = g.rng.randrange(len(x.shape) - 1)
    if len(x.shape) > 2:
        index = g.builder.constant(np.int64(g.rng.choice([-1, g.rng.randrange(x.shape[axis])])))
        g.keep(g.node("Gather", x.name, index, axis=axis), *x.shape[:axis], *x.shape[axis + 1 :])


def _reduce(g: Growing, x: Value) -> None:
    op, keeps = g.rng.choice(["ReduceMean", "ReduceMean", "ReduceMax", "ReduceMin"]), g.rng.randint(0, 1)
    last = len(x.shape) - 1
    sides = [*range(2, len(x.shape))]
    axes = g.rng.choice([sides, sides, *([side] for side in sides)]) if x.has_channels else [last]
    sizes = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keeps or axis not in axes]
    if len(sizes) > 1:
        g.keep(g.node(op, x.name, axes=axes, keepdims=keeps), *sizes)


ANY: tuple[Step, ...] = (_unary, _unary, _clip, _silu, _prelu, _change_channels, _change_channels, _two, _two)
ANY += (_concat, _split, _slice, _reduce)
SPATIAL: tuple[Step, ...] = (*(_conv,) * 7, *(_batch_norm,) * 2, *(_pool,) * 2, _global_pool, _flatten)
SPATIAL += (_instance_norm, _group_norm)
STEPS: Mapping[str, tuple[Step, ...]] = {
    IMAGE: (
        *SPATIAL,
        _conv_transpose,
        _squeeze_and_excite,
        _resize,
        _depth_to_space,
        _pad,
        _image_to_rows,
        *ANY,
    ),
    VOLUME: (*SPATIAL, *ANY),
    ROWS: (
        *(_matmul,) * 4,
        *(_gemm,) * 3,
        _attention,
        _layer_norm,
        _written_norm,
        _written_root_mean_square_norm,
        _recurrence,
        _softmax,
        _reshape_rows,
        _pick,
        *ANY,
    ),
}


@dataclass(frozen=True, slots=True)
class Network:
    """A random network.

    Attributes:
        shapes: of its inputs, by name.
    """

    model: ModelProto
    shapes: Mapping[str, tuple[int, ...]]

    def samples(self, count: int, seed: int) -> list[Tensors]:
        """Return normally distributed inputs."""
        rng = np.random.default_rng(seed)
        return [
            {name: rng.standard_normal(shape, np.float32) for name, shape in self.shapes.items()}
            for _ in range(count)
        ]


def random_network(seed: int) -> Network:
    """Return a network of up to a dozen random operators; equal seeds give equal networks."""
    g = Growing(seed)
    g.input("x", *_input_shape(g.rng))
    for _ in range(g.rng.randint(2, 12)):
        kind = g.values[-1].kind
        value = g.some(kind)
        assert value is not None, "the last value is of its kind"
        g.rng.choice(STEPS[kind])(g, value)
    if len(g.values) == 1:
        _unary(g, g.values[0])
    return Network(_finished(g), g.shapes)


def _input_shape(rng: random.Random) -> tuple[int, ...]:
    kind = rng.choices([IMAGE, VOLUME, ROWS], [10, 2, 8])[0]
    if kind == IMAGE:
        side = rng.randint(3, MOST_SIDE)
        return 1, rng.randint(1, MOST_CHANNELS), side, rng.choice([side, rng.randint(1, MOST_SIDE)])
    if kind == VOLUME:
        return 1, rng.randint(1, MOST_CHANNELS // 3), *(rng.randint(1, MOST_SIDE // 2) for _ in range(3))
    shape = rng.randint(1, MOST_ROWS), rng.randint(2, 40)
    return rng.choice([shape, (1, *shape)])


def _finished(g: Growing) -> ModelProto:
    """Return the model; its outputs are the last two values that nothing reads, and the last value."""
    loose = [value.name for value in g.values[1:] if value.name not in g.read]
    outputs = dict.fromkeys((*loose[-2:], g.values[-1].name))
    return g.builder.finish(**{f"y{place}": name for place, name in enumerate(outputs)})
