"""Building an ONNX graph node by node, with seeded weights."""

from collections.abc import Callable

import numpy as np
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    checker,
    helper,
    numpy_helper,
    shape_inference,
)

OPSET = 17
IR_VERSION = 8  # the version of opset 17, which every reader since understands


class GraphBuilder:
    """Collects the nodes and weights of a graph. Every method that adds a node returns the name of what the
    node computes.

    Args:
        name: the graph's name.
        seed: of the weights.
        opset: version of the ONNX operators.
    """

    def __init__(self, name: str, seed: int, opset: int = OPSET) -> None:
        self._name, self._opset = name, opset
        self._random = np.random.default_rng(seed)
        self._nodes: list[NodeProto] = []
        self._count = 0
        self._weights: list[TensorProto] = []
        self._inputs = []

    def input(self, name: str, *shape: int, element: int = TensorProto.FLOAT) -> str:
        """Declare an input of a shape, of float32 or another type of elements."""
        self._inputs.append(helper.make_tensor_value_info(name, element, shape))
        return name

    def constant(self, values: np.ndarray) -> str:
        """Keep values as an initializer."""
        name = f"constant_{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(values, name))
        return name

    def weight(self, *shape: int, fan_in: float, gain: float = 2.0) -> str:
        """Keep normally distributed weights, float32[shape], that carry the power of their inputs times gain
        / 2 through a ReLU.

        Source: He et al., Delving Deep into Rectifiers, ICCV 2015, section 2.2.
        """
        return self._normal(shape, np.sqrt(gain / fan_in))

    def bias(self, channels: int) -> str:
        """Keep small biases, float32[channels]."""
        return self._normal((channels,), 0.1)

    def node(self, operator: str, *inputs: str, **attributes: object) -> str:
        """Add a node with one output."""
        return self.nodes(operator, 1, *inputs, **attributes)[0]

    def nodes(self, operator: str, outputs: int, *inputs: str, **attributes: object) -> tuple[str, ...]:
        """Add a node with several outputs; return their names."""
        name, self._count = f"{operator}_{self._count}", self._count + 1
        names = (name,) if outputs == 1 else tuple(f"{name}_{number}" for number in range(outputs))
        self._nodes.append(helper.make_node(operator, inputs, names, name, **attributes))
        return names

    def relu(self, data: str) -> str:
        """Add a Relu."""
        return self.node("Relu", data)

    def conv(
        self,
        data: str,
        channels: int,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        bias: bool = False,
        dimensions: int = 2,
    ) -> str:
        """Add a convolution of float32[n, channels, ...] with the same kernel in all spatial dimensions."""
        window = [kernel] * dimensions
        inputs = channels // groups
        weight = self.weight(outputs, inputs, *window, fan_in=inputs * kernel**dimensions)
        extra = (self.bias(outputs),) if bias else ()
        return self.node(
            "Conv",
            data,
            weight,
            *extra,
            kernel_shape=window,
            strides=[stride] * dimensions,
            pads=[padding] * (2 * dimensions),
            dilations=[1] * dimensions,
            group=groups,
        )

    def conv_transpose(
        self,
        data: str,
        channels: int,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        padding: int = 0,
        bias: bool = False,
    ) -> str:
        """Add a square transposed convolution of float32[n, channels, h, w]."""
        weight = self.weight(
            channels, outputs, kernel, kernel, fan_in=channels * max(1.0, kernel / stride) ** 2
        )
        extra = (self.bias(outputs),) if bias else ()
        return self.node(
            "ConvTranspose",
            data,
            weight,
            *extra,
            kernel_shape=[kernel] * 2,
            strides=[stride] * 2,
            pads=[padding] * 4,
            dilations=[1, 1],
            group=1,
        )

    def batch_norm(self, data: str, channels: int, *, deviation: float = 1.0, mean: float = 1.0) -> str:
        """Add a BatchNormalization to about `deviation` and `mean`; `settle` gives it the statistics of its
        input.

        A mean of one deviation lets most values through a Relu. With a mean of zero and random weights, every
        layer would amplify rounding errors by up to a fifth, and outputs of deep networks would say little
        about whether their layers were computed right.
        """
        scale = self.constant((deviation * self._random.uniform(0.8, 1.2, channels)).astype(np.float32))
        shift = self._normal((channels,), 0.1, mean)
        zero_mean, unit_variance = (
            self.constant(np.zeros(channels, np.float32)),
            self.constant(np.ones(channels, np.float32)),
        )
        return self.node("BatchNormalization", data, scale, shift, zero_mean, unit_variance, epsilon=1e-5)

    def layer_norm(self, data: str, width: int) -> str:
        """Add a LayerNormalization over the last dimension."""
        scale = self.constant(self._random.uniform(0.8, 1.2, width).astype(np.float32))
        return self.node("LayerNormalization", data, scale, self.bias(width), axis=-1, epsilon=1e-5)

    def dense(self, data: str, inputs: int, outputs: int, *, gain: float = 2.0, bias: bool = True) -> str:
        """Add a Gemm of float32[rows, inputs] with weights float32[outputs, inputs]."""
        extra = (self.bias(outputs),) if bias else ()
        return self.node(
            "Gemm", data, self.weight(outputs, inputs, fan_in=inputs, gain=gain), *extra, transB=1
        )

    def integers(self, *values: int) -> str:
        """Keep whole numbers, int64[values], as an initializer."""
        return self.constant(np.array(values, np.int64))

    def scalar(self, value: float) -> str:
        """Keep a number, float32[], as an initializer."""
        return self.constant(np.array(value, np.float32))

    def branch(self, body: Callable[[], str]) -> GraphProto:
        """Return the nodes that `body` adds as a separate graph, for an If; weights stay outside."""
        outer, self._nodes = self._nodes, []
        result = body()
        graph = helper.make_graph(
            self._nodes,
            f"branch_{result}",
            [],
            [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)],
        )
        self._nodes = outer
        return graph

    def finish(self, **outputs: str) -> ModelProto:
        """Return the checked model with shapes; its outputs carry the keywords' names.

        Raises:
            onnx.checker.ValidationError, onnx.shape_inference.InferenceError: the graph is not valid ONNX.
        """
        named = {value: name for name, value in outputs.items()}
        for node in self._nodes:
            node.input[:] = [named.get(value, value) for value in node.input]
            node.output[:] = [named.get(value, value) for value in node.output]
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self._nodes, self._name, self._inputs, results, self._weights)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self._opset)], ir_version=IR_VERSION
        )
        model = shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        checker.check_model(model, full_check=True)
        return model

    def _normal(self, shape: tuple[int, ...], deviation: float, mean: float = 0.0) -> str:
        return self.constant((self._random.standard_normal(shape) * deviation + mean).astype(np.float32))
