"""The types that a model may be passed as; this module does not need the `onnx` package."""

import os
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
