"""What a model may be given as; nothing here needs the `onnx` package."""

import os
from typing import Protocol, runtime_checkable


@runtime_checkable
class ModelMessage(Protocol):
    """A model in memory: `onnx.ModelProto`."""

    def ByteSize(self) -> int:
        """Return how many bytes its file would have."""

    def SerializeToString(self) -> bytes:
        """Return what its file would hold."""


ModelSource = str | os.PathLike[str] | bytes | ModelMessage
"""An ONNX file, its bytes, or a model in memory."""
