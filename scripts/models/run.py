"""Running a model under onnxruntime."""

from typing import TYPE_CHECKING

import numpy as np
from onnx import ModelProto

from vdla.runtime.host.onnx_runtime import EXACT_SUMS

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Tensors = dict[str, np.ndarray]


def session_of(model: ModelProto) -> "InferenceSession":
    """Return a session that uses one thread."""
    from onnxruntime import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry(*EXACT_SUMS)
    return InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(session: "InferenceSession", feeds: Tensors) -> Tensors:
    """Return the outputs of a model by name."""
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))
