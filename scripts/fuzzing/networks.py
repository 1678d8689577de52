"""Small networks as seeds: two quantised networks, which run on accelerator and host, and a float network."""

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 17, 8
SCALE, ZERO = "scale", "zero"


class Network:
    """A model in the making."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[NodeProto] = []
        self.constants = {SCALE: np.array(0.05, np.float32), ZERO: np.array(0, np.int8)}

    def op(self, op: str, *inputs: str, **attributes) -> str:
        """Add an operator; return its output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"{op}_{len(self.nodes)}", **attributes))
        return name

    def constant(self, values: np.ndarray) -> str:
        """Add a constant; return its name."""
        name = f"c{len(self.constants)}"
        self.constants[name] = values
        return name

    def integers(self, *shape: int) -> str:
        """Add int8 weights."""
        return self.constant(self.rng.integers(-40, 40, shape, np.int8))

    def conv(self, x: str, inputs: int, outputs: int, kernel: int, **attributes) -> str:
        """Add a quantised convolution."""
        bias = self.constant(self.rng.integers(-99, 99, outputs, np.int32))
        return self.op(
            "QLinearConv",
            x,
            SCALE,
            ZERO,
            self.integers(outputs, inputs, kernel, kernel),
            SCALE,
            ZERO,
            SCALE,
            ZERO,
            bias,
            **attributes,
        )

    def product(self, x: str, inputs: int, outputs: int) -> str:
        """Add a quantised product of matrices."""
        return self.op(
            "QLinearMatMul", x, SCALE, ZERO, self.integers(inputs, outputs), SCALE, ZERO, SCALE, ZERO
        )

    def model(
        self, inputs: dict[str, tuple[int, ...]], output: str, element: int = TensorProto.FLOAT
    ) -> ModelProto:
        """Return the model."""
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info(name, element, shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            [numpy_helper.from_array(values, name) for name, values in self.constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def images() -> ModelProto:
    """Return convolutions, a shortcut and pooling."""
    net = Network(0)
    x = net.conv(net.op("QuantizeLinear", "x", SCALE, ZERO), 3, 8, 3, pads=[1, 1, 1, 1], strides=[2, 2])
    y = net.op("MaxPool", net.conv(x, 8, 8, 1), kernel_shape=[2, 2], strides=[2, 2])
    z = net.op("DequantizeLinear", net.product(net.op("Flatten", y), 32, 10), SCALE, ZERO)
    return net.model({"x": (1, 3, 8, 8)}, net.op("Softmax", z, axis=1))


def rows() -> ModelProto:
    """Return a product of matrices between operators on the host."""
    net = Network(1)
    x = net.op("QuantizeLinear", net.op("Clip", net.op("Transpose", "x", perm=[1, 0])), SCALE, ZERO)
    y = net.op("DequantizeLinear", net.product(x, 6, 5), SCALE, ZERO)
    padded = net.op("Pad", y, net.constant(np.array([0, 1, 0, 1])), mode="constant")
    joined = net.op("Concat", padded, net.op("Erf", padded), axis=0)
    taken = net.op("Gather", joined, net.constant(np.array([0, 3])), axis=0)
    return net.model(
        {"x": (6, 4)},
        net.op("ReduceMean", net.op("Tile", taken, net.constant(np.array([1, 2]))), axes=[1], keepdims=1),
    )


def floats() -> ModelProto:
    """Return a float network, which cannot be compiled without samples, with a shape that is computed."""
    net = Network(2)
    weights = net.constant(net.rng.normal(size=(4, 2, 3, 3)).astype(np.float32))
    x = net.op("Relu", net.op("Conv", "x", weights, auto_pad="SAME_UPPER", strides=[2, 2]))
    batch = net.op("Gather", net.op("Shape", x), net.constant(np.array([0])), axis=0)
    shape = net.op("Concat", batch, net.constant(np.array([-1])), axis=0)
    pooled = net.op("AveragePool", x, kernel_shape=[2, 2])
    return net.model(
        {"x": (1, 2, 8, 8)},
        net.op(
            "Reshape", net.op("Resize", pooled, "", net.constant(np.array([1, 1, 2, 2], np.float32))), shape
        ),
    )


NETWORKS = (images, rows, floats)
QUANTISED = (images, rows)
