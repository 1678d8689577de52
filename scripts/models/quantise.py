"""Quantisation to int8 with onnxruntime: QuantizeLinear and DequantizeLinear around every operator."""

import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import onnx
from onnx import ModelProto, NodeProto
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from models.names import names_read
from models.run import Tensors

SYMMETRIC = {"ActivationSymmetric": True, "WeightSymmetric": True}


class Samples(CalibrationDataReader):
    """Hands samples to the calibration one by one."""

    def __init__(self, samples: list[Tensors]) -> None:
        self._samples = iter(samples)

    def get_next(self) -> Tensors | None:
        """Return the next sample, None after the last."""
        return next(self._samples, None)


def quantise(
    source: Path,
    samples: list[Tensors],
    float_operators: frozenset[str] = frozenset(),
    float_behind: frozenset[str] = frozenset(),
    *,
    unsigned: bool = False,
) -> ModelProto:
    """Return the quantised form of a model: int8, symmetric, weights per channel.

    Batch normalisations are folded. An operator with a Relu behind it is rounded once, after the Relu.

    Args:
        source: the float model's file.
        samples: inputs, whose activations give the ranges.
        float_operators: operators to leave as they are.
        float_behind: operators to leave as they are, with every node behind them.
        unsigned: activations are uint8 with zero points, onnxruntime's fastest form.
    """
    with tempfile.TemporaryDirectory(prefix="quantise.") as folder:
        folded, target = Path(folder) / "folded.onnx", Path(folder) / "quantised.onnx"
        quant_pre_process(str(source), str(folded), skip_symbolic_shape=True)
        nodes = onnx.load(folded).graph.node
        quantize_static(
            folded,
            target,
            Samples(samples),
            quant_format=QuantFormat.QDQ,
            op_types_to_quantize=sorted({node.op_type for node in nodes} - float_operators),
            nodes_to_exclude=behind(nodes, float_behind),
            per_channel=True,
            activation_type=QuantType.QUInt8 if unsigned else QuantType.QInt8,
            weight_type=QuantType.QInt8,
            extra_options=SYMMETRIC | {"ActivationSymmetric": not unsigned},
        )
        model = onnx.load(target)
    _fuse_relus(model)
    _drop_unused_domains(model)
    onnx.checker.check_model(model, full_check=True)
    return model


def behind(nodes: Iterable[NodeProto], operators: frozenset[str]) -> list[str]:
    """Return the names of nodes of some operators, and of all that their results reach."""
    reached: set[str] = set()
    names = []
    for node in nodes:  # in topological order
        if node.op_type in operators or reached & set(node.input):
            reached |= set(node.output)
            names.append(node.name)
    return names


def _fuse_relus(model: ModelProto) -> None:
    """Take out the quantisation between an operator and the only Relu or Clip that reads it.

    With a zero point of 0, quantize_static rounds before and after every Relu, although an accelerator's
    result passes it before it is narrowed.
    """
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output}
    readers = Counter(name for node in graph.node for name in node.input)
    removed = []
    for node in graph.node:
        pair = _pair_before(node, makers)
        if node.op_type in ("Relu", "Clip") and pair and all(readers[half.output[0]] == 1 for half in pair):
            node.input[0] = pair[0].input[0]
            removed += pair
    for node in removed:
        graph.node.remove(node)
    _drop_unused_weights(model)


def _pair_before(node: NodeProto, makers: dict[str, NodeProto]) -> tuple[NodeProto, NodeProto] | None:
    """Return the QuantizeLinear and DequantizeLinear that a node's first input went through."""
    last = makers.get(node.input[0])
    first = makers.get(last.input[0]) if last and last.op_type == "DequantizeLinear" else None
    return (first, last) if first and first.op_type == "QuantizeLinear" else None


def _drop_unused_weights(model: ModelProto) -> None:
    used = names_read(model.graph)
    kept = [weight for weight in model.graph.initializer if weight.name in used]
    model.graph.ClearField("initializer")
    model.graph.initializer.extend(kept)


def _drop_unused_domains(model: ModelProto) -> None:
    """Take out the operator sets that onnxruntime lists and no node is of."""
    used = {node.domain for node in model.graph.node}
    kept = [opset for opset in model.opset_import if opset.domain in used]
    model.ClearField("opset_import")
    model.opset_import.extend(kept)
