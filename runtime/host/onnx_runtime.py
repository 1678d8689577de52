"""Parts of a network that onnxruntime runs: operators that this package does not have.

A part is a separate ONNX model, as bytes in an array. Its inputs and outputs are, in order, the inputs and
outputs of the operator `OnnxRuntime`, whose first input is the model. A part runs on one thread, so that its
results do not depend on the machine's number of processors.
"""

import weakref
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from vdla.hw.spec.errors import ToolError
from vdla.hw.spec.extras import missing, require_package
from vdla.hw.spec.limits import OPERATOR_BYTES, require_room
from vdla.hw.spec.showing import short
from vdla.runtime.host.dtypes import TENSOR_DTYPES

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

PART = "OnnxRuntime"
PACKAGE = "onnxruntime"
PURPOSE = "running other operators on the host"
PROVIDERS = ("CPUExecutionProvider",)
ELEMENTS = {"float": "float32", "double": "float64"}  # what onnxruntime calls otherwise than NumPy
LONGEST_REASON = 300
EXACT_SUMS = ("session.x64quantprecision", "1")
"""Configuration entry of a session that makes sums of uint8 activations times constant int8 weights exact.

Without it, onnxruntime saturates sums of two products on processors with AVX2 and without VNNI.
"""
FATAL = 4  # severity from which on onnxruntime writes to standard error


def is_there() -> bool:
    """Whether onnxruntime is installed."""
    try:
        require_package(PACKAGE, PURPOSE)
    except ToolError:
        return False
    return True


def cure() -> str:
    """Return what is missing where onnxruntime is not installed, and what installs it."""
    return str(missing(PACKAGE, PURPOSE))


def session_from(model: bytes, *, optimised: bool = True, exact: bool = True) -> "InferenceSession":
    """Return onnxruntime's session of a model.

    Args:
        optimised: let onnxruntime fold and fuse; not needed where types are all that is asked for.
        exact: let optimised sums of uint8 activations times constant int8 weights be exact (`EXACT_SUMS`),
            unless onnxruntime has no kernel for an operator then: QGemm of int8 activations. Exact sums may
            take longer.

    Raises:
        ToolError: onnxruntime is not installed.
        ValueError: onnxruntime refuses the model; the message is its reason.
    """
    require_package(PACKAGE, PURPOSE)
    if exact and optimised:
        try:
            return _session_with(model, optimised, EXACT_SUMS)
        except ValueError:  # a model without the missing kernel is refused again below, with its reason
            return _session_with(model, optimised)
    return _session_with(model, optimised)


def _session_with(model: bytes, optimised: bool, *entries: tuple[str, str]) -> "InferenceSession":
    """Return onnxruntime's session of a model with configuration entries; errors as of `session_from`."""
    from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions

    options = SessionOptions()
    options.log_severity_level = FATAL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    for entry in entries:
        options.add_session_config_entry(*entry)
    if not optimised:
        options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return InferenceSession(model, options, providers=list(PROVIDERS))
    except Exception as error:  # onnxruntime's errors share no other class
        raise ValueError(reason_of(error)) from error


def reason_of(error: Exception) -> str:
    """Return what an error of onnxruntime says, on one line."""
    text = " ".join(str(error).split())
    _, _, said = text.rpartition("[ONNXRuntimeError] : ")
    return short(said or type(error).__name__, LONGEST_REASON)


class _Sessions:
    """The sessions of models that are still in memory, each built once."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[weakref.ref[np.ndarray], InferenceSession]] = {}

    def of(self, model: np.ndarray) -> "InferenceSession":
        """Return the session of a model; errors as in `session_from`."""
        key = id(model)
        if key in self.known and self.known[key][0]() is model:
            return self.known[key][1]
        session = session_from(model.tobytes())
        _check_outputs(session)
        self.known[key] = weakref.ref(model, lambda _: self.known.pop(key, None)), session
        return session


_SESSIONS = _Sessions()


def prepare(model: np.ndarray) -> None:
    """Build the session of a part, which its runs then use.

    Args:
        model: uint8[n].

    Raises:
        ToolError: onnxruntime is not installed.
        ValueError: onnxruntime refuses the model.
    """
    _SESSIONS.of(model)


def run_part(model: np.ndarray, *inputs: np.ndarray) -> tuple[np.ndarray, ...]:
    """Run a part.

    Args:
        model: uint8[n], its ONNX model.
        inputs: in the order of the model's.

    Raises:
        ToolError: onnxruntime is not installed.
        ValueError: onnxruntime refuses the model, or its inputs.
    """
    session = _SESSIONS.of(model)
    names = [argument.name for argument in session.get_inputs()]
    if len(names) != len(inputs):
        raise ValueError(f"the part takes {len(names)} inputs")
    try:
        outputs = session.run(
            None, {name: np.asarray(x, order="C") for name, x in zip(names, inputs, strict=True)}
        )
    except Exception as error:  # onnxruntime's errors share no other class
        raise ValueError(reason_of(error)) from error
    return tuple(np.asarray(array) for array in outputs)


def _check_outputs(session: "InferenceSession") -> None:
    """Refuse outputs that are no tensors, or larger than an operator may make."""
    for output in session.get_outputs():
        kind = output.type.removeprefix("tensor(").removesuffix(")")
        dtype = ELEMENTS.get(kind, kind)
        if dtype not in TENSOR_DTYPES:
            raise ValueError(f"it makes {output.name}, a {output.type}; there are {', '.join(TENSOR_DTYPES)}")
        known = [size for size in output.shape if isinstance(size, int)]
        size = prod(known) * np.dtype(dtype).itemsize
        require_room(size, OPERATOR_BYTES, f"{output.name} takes", ValueError)


OPERATORS = {PART: run_part}
