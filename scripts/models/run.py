"""Running a model under onnxruntime."""

from typing import TYPE_CHECKING

import numpy as np
from onnx import ModelProto

from vdla.runtime.host.onnx_runtime import session_from

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Tensors = dict[str, np.ndarray]


def session_of(model: ModelProto, *, exact: bool = True) -> "InferenceSession":
    """Return a session that uses one thread, as `session_from` does."""
    return session_from(model.SerializeToString(), exact=exact)


def run(session: "InferenceSession", feeds: Tensors) -> Tensors:
    """Return the outputs of a model by name."""
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))
