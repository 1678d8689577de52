"""The styles of quantised files: how tools write the same quantised network."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import onnx
from onnx import ModelProto

from models.blocks import in_blocks
from models.run import Tensors

S8, U8 = "QInt8", "QUInt8"
SYMMETRIC = {"ActivationSymmetric": True, "WeightSymmetric": True}
OPSET_OF_NIBBLES = 21
Remake = Callable[[ModelProto], ModelProto]


@dataclass(frozen=True, slots=True)
class Style:
    """A way to write a quantised network.

    Attributes:
        summary: one line for people.
        activations, weights: their types, as onnxruntime calls them.
        settings: further arguments of `quantize_static`.
        options: its `extra_options`.
        before, after: what is done to the float model before, and to the quantised model after.
        folds: batch normalisations are folded before.
        format: of the file, as onnxruntime calls it.
    """

    summary: str
    activations: str = S8
    weights: str = S8
    settings: Mapping[str, object] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    before: Remake = lambda model: model
    after: Remake = lambda model: model
    folds: bool = True
    format: str = "QDQ"

    def quantised(
        self,
        model: ModelProto,
        samples: Sequence[Tensors],
        float_operators: frozenset[str] = frozenset(),
        float_behind: frozenset[str] = frozenset(),
    ) -> ModelProto:
        """Return a float model in this style.

        Args:
            samples: inputs, whose activations give the ranges.
            float_operators: operators to leave as they are.
            float_behind: operators to leave as they are, with every node behind them.
        """
        from onnxruntime.quantization import QuantFormat, QuantType, quantize_static
        from onnxruntime.quantization.shape_inference import quant_pre_process

        from models.quantise import Samples, behind

        with tempfile.TemporaryDirectory(prefix="styles.") as folder:
            source, target = Path(folder) / "float.onnx", Path(folder) / "quantised.onnx"
            onnx.save(self.before(model), source)
            if self.folds:
                quant_pre_process(str(source), str(source), skip_symbolic_shape=True)
            nodes = onnx.load(source).graph.node
            quantize_static(
                source,
                target,
                Samples(list(samples)),
                op_types_to_quantize=sorted({node.op_type for node in nodes} - float_operators),
                nodes_to_exclude=behind(nodes, float_behind),
                quant_format=QuantFormat.from_string(self.format),
                activation_type=QuantType.from_string(self.activations),
                weight_type=QuantType.from_string(self.weights),
                extra_options=dict(self.options),
                **self.settings,
            )
            return self.after(onnx.load(target))


@dataclass(frozen=True, slots=True)
class Unquantised:
    """A way to write a network whose activations are real numbers.

    Attributes:
        summary: one line for people.
        make: writes a float model so.
    """

    summary: str
    make: Remake

    def quantised(
        self,
        model: ModelProto,
        samples: Sequence[Tensors],
        float_operators: frozenset[str] = frozenset(),
        float_behind: frozenset[str] = frozenset(),
    ) -> ModelProto:
        """Return a float model in this style, whose weights alone are integers."""
        return self.make(model)


def _copied(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


def newer(model: ModelProto) -> ModelProto:
    """Return a model of the operator set that has integers of four bits."""
    return onnx.version_converter.convert_version(model, OPSET_OF_NIBBLES)


def with_bytes_outside(model: ModelProto) -> ModelProto:
    """Return a quantised model whose inputs and outputs are the integers behind its first and last
    conversions."""
    model = _copied(model)
    graph, gone = model.graph, []
    inputs, outputs = ({value.name: value for value in part} for part in (graph.input, graph.output))
    types = {weight.name: weight.data_type for weight in graph.initializer}
    for node in graph.node:
        first = node.op_type == "QuantizeLinear" and node.input[0] in inputs
        if first or (node.op_type == "DequantizeLinear" and node.output[0] in outputs):
            value = inputs[node.input[0]] if first else outputs[node.output[0]]
            value.name = node.output[0] if first else node.input[0]
            value.type.tensor_type.elem_type = types[node.input[2]]
            gone.append(node)
    for node in gone:
        graph.node.remove(node)
    return model


def optimised(model: ModelProto) -> ModelProto:
    """Return a model as onnxruntime writes it after its optimisations: operators on integers."""
    from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions

    options = SessionOptions()
    options.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    with tempfile.TemporaryDirectory(prefix="styles.") as folder:
        options.optimized_model_filepath = str(Path(folder) / "optimised.onnx")
        InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return onnx.load(options.optimized_model_filepath)


def dynamically(model: ModelProto) -> ModelProto:
    """Return a model whose activations are quantised by their own range while it runs."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with tempfile.TemporaryDirectory(prefix="styles.") as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "quantised.onnx"
        onnx.save(model, source)
        quantize_dynamic(source, target, weight_type=QuantType.QUInt8)
        return onnx.load(target)


PER_CHANNEL = {"per_channel": True}
OPERATORS = partial(Style, format="QOperator")
STYLES: Mapping[str, Style | Unquantised] = {
    "qdq": Style("int8 symmetric, weights per channel", settings=PER_CHANNEL, options=SYMMETRIC),
    "qdq-tensor": Style("int8 symmetric, weights per tensor", options=SYMMETRIC),
    "qdq-asymmetric": Style("int8 with zero points, weights per channel", settings=PER_CHANNEL),
    "qdq-u8": Style("uint8 with zero points, weights int8 per channel", U8, settings=PER_CHANNEL),
    "qdq-u8u8": Style("uint8, weights uint8, both with zero points", U8, U8),
    "qdq-u8u8-channel": Style("uint8, weights uint8 per channel", U8, U8, PER_CHANNEL),
    "qdq-u8u8-reduced": Style("uint8, weights uint8 of seven bits", U8, U8, {"reduce_range": True}),
    "qdq-s8u8": Style("int8 with zero points, weights uint8", S8, U8),
    "qdq-skewed": Style("weights int8 with zero points", U8, S8, PER_CHANNEL, {"WeightSymmetric": False}),
    "qdq-dedicated": Style("a pair for each reader", U8, options={"DedicatedQDQPair": True}),
    "qdq-trained": Style(
        "weights of float, then QuantizeLinear", settings=PER_CHANNEL, options={"AddQDQPairToWeight": True}
    ),
    "qdq-float-bias": Style("biases of float", settings=PER_CHANNEL, options={"QuantizeBias": False}),
    "qdq-kept": Style("Relu and Clip kept", U8, options={"QDQKeepRemovableActivations": True}),
    "qdq-contributed": Style("conversions of com.microsoft", U8, options={"UseQDQContribOps": True}),
    "qdq-norms": Style("batch normalisations between pairs", U8, settings=PER_CHANNEL, folds=False),
    "qdq-bytes": Style("inputs and outputs of uint8", U8, after=with_bytes_outside),
    "qdq-nibbles": Style(
        "weights int4", U8, "QInt4", PER_CHANNEL, {**SYMMETRIC, "ActivationSymmetric": False}, newer
    ),
    "qdq-unsigned-nibbles": Style("weights uint4", U8, "QUInt4", {}, {}, newer),
    "qoperator": OPERATORS("operators on int8", settings=PER_CHANNEL, options=SYMMETRIC),
    "qoperator-asymmetric": OPERATORS("operators on int8 with zero points"),
    "qoperator-u8": OPERATORS("operators on uint8, weights int8", U8, settings=PER_CHANNEL),
    "qoperator-u8u8": OPERATORS("operators on uint8, weights uint8", U8, U8),
    "qoperator-reduced": OPERATORS("the same, of seven bits", U8, U8, {"reduce_range": True}),
    "optimised": Style(
        "as onnxruntime optimises the style qdq-u8", U8, settings=PER_CHANNEL, after=optimised
    ),
    "optimised-s8": Style("as onnxruntime optimises the style qdq", options=SYMMETRIC, after=optimised),
    "dynamic": Unquantised("ranges found while it runs", dynamically),
    "blocks": Unquantised("weights int4 in blocks, MatMulNBits", partial(in_blocks, zeros=False, fused=True)),
    "blocks-zero": Unquantised(
        "weights uint4 in blocks with zero points, MatMulNBits", partial(in_blocks, zeros=True, fused=True)
    ),
    "blocks-qdq": Unquantised(
        "weights int4 in blocks, DequantizeLinear", partial(in_blocks, zeros=False, fused=False)
    ),
    "blocks-qdq-zero": Unquantised(
        "weights uint4 in blocks with zero points, DequantizeLinear",
        partial(in_blocks, zeros=True, fused=False),
    ),
}
