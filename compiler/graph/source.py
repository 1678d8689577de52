"""What a network is imported from: a model, and its part; this module does not need the `onnx` package."""

import os
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@runtime_checkable
class ModelMessage(Protocol):
    """An in-memory model: `onnx.ModelProto`."""

    def ByteSize(self) -> int:
        """Return the size of the serialised model, in bytes."""

    def SerializeToString(self) -> bytes:
        """Return the serialised model."""


ModelSource = str | os.PathLike[str] | bytes | ModelMessage
"""The path of an ONNX file, its bytes, or an in-memory model."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a model, delimited by names of values.

    Attributes:
        inputs: values that become inputs; empty: the model's inputs that the outputs depend on.
        outputs: values that become outputs; empty: the model's outputs.
        fixed: inputs of the model that become constants, each with the value of all its elements.
        states: inputs, each with the output whose value it has in the next run. A `*` in both names stands
            for any text.
    """

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    fixed: tuple[tuple[str, float], ...] = ()
    states: tuple[tuple[str, str], ...] = ()


WHOLE = Section()
