"""Statistics of batch normalisation, as training would leave them."""

from collections.abc import Iterable

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from models.run import Tensors, run, session_of


def settle(model: ModelProto, samples: Iterable[Tensors]) -> None:
    """Set mean and variance of every BatchNormalization to the moments of its input over the samples, so that
    activations keep their size.

    While they are measured, every sample is normalised by itself, as in training with a batch of one.
    """
    norms = _norms(model)
    if not norms:
        return
    session = session_of(_as_in_training(model))
    moments = [
        {name: _moments(values) for name, values in run(session, sample).items()} for sample in samples
    ]
    weights = {weight.name: weight for weight in model.graph.initializer}
    for node in norms:
        mean, power = np.mean([sample_moments[node.input[0]] for sample_moments in moments], axis=0)
        for name, values in zip(node.input[3:], (mean, power - mean**2), strict=True):
            weights[name].CopyFrom(numpy_helper.from_array(values.astype(np.float32), name))


def _norms(model: ModelProto) -> list[NodeProto]:
    return [node for node in model.graph.node if node.op_type == "BatchNormalization"]


def _as_in_training(model: ModelProto) -> ModelProto:
    """Return the model with every batch normalisation per sample; its outputs are what they normalise."""
    probe = ModelProto()
    probe.CopyFrom(model)
    norms = _norms(probe)
    unused = {name for node in norms for name in node.input[3:]}
    kept = [weight for weight in model.graph.initializer if weight.name not in unused]
    for field, values in (("initializer", kept), ("output", [_output(node.input[0]) for node in norms])):
        probe.graph.ClearField(field)
        getattr(probe.graph, field).extend(values)
    for node in norms:
        node.op_type = "InstanceNormalization"
        del node.input[3:]
    return probe


def _output(name: str):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def _moments(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and mean square of float32[n, c, ...], each float64[c]."""
    wide = values.astype(np.float64)
    others = (0, *range(2, wide.ndim))
    return wide.mean(others), (wide**2).mean(others)
