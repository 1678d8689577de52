"""The inputs of a compilation that determine the graph of integer operators, and their digest."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from vdla.compiler.codegen.version import network_version
from vdla.compiler.graph.quantisation.options import Options
from vdla.compiler.graph.source import WHOLE, ModelMessage, ModelSource, Section
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.limits import ARRAY_BYTES, FACTOR, limit_of
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import Extension
from vdla.runtime.host import onnx_runtime
from vdla.runtime.samples.given import Given

EXTERNAL_DATA = b"location"  # key of the file name in every model with external data


@dataclass(frozen=True)
class Source:
    """All inputs of the import that determine a graph of integer operators.

    Attributes:
        model: an ONNX file, its bytes, or a model of the `onnx` package.
        samples: inputs for the calibration of a float network; they also determine dynamic shapes.
        options: options of quantisation.
        shapes: shapes of inputs that are dynamic in the model.
        section: the part of the model to import.
    """

    model: ModelSource
    samples: Given | None = None
    options: Options = field(default_factory=Options)
    shapes: Mapping[str, Sequence[int]] | None = None
    section: Section = WHOLE

    def for_target(self, target: Target) -> "Source":
        """Return the source with the options of quantisation that suit what a target executes."""
        normalises = target.config.has(Extension.NORMALISE)
        return replace(self, options=replace(self.options, normalises=normalises))

    def key(self) -> str | None:
        """Return the digest of all inputs; None if the model cannot be read or has external data."""
        model = self._bytes()
        if model is None or EXTERNAL_DATA in model:
            return None
        shapes = {name: list(shape) for name, shape in (self.shapes or {}).items()}
        options = repr((shapes, self.section, self.options, os.environ.get(FACTOR), self.samples is None))
        samples = () if self.samples is None else self.samples.parts()
        return digest_of([model, options, *samples, network_version(), *_libraries()])

    def _bytes(self) -> bytes | None:
        match self.model:
            case bytes() as data:
                return data
            case str() | os.PathLike() as name:
                return _contents(Path(name))
            case ModelMessage() as model if model.ByteSize() <= limit_of(ARRAY_BYTES):
                return model.SerializeToString()
        return None


def _contents(path: Path) -> bytes | None:
    """Return the contents of a file; None if it cannot be read or is too large for a model."""
    try:
        return path.read_bytes() if path.stat().st_size <= limit_of(ARRAY_BYTES) else None
    except OSError:
        return None


def _libraries() -> Iterable[bytes]:
    """Yield the versions of NumPy, `onnx` and onnxruntime, without importing the latter two."""
    yield np.__version__.encode()
    spec = find_spec("onnx")
    if spec is not None and spec.origin is not None:
        yield (Path(spec.origin).parent / "version.py").read_bytes()
    runtime = find_spec(onnx_runtime.PACKAGE) if onnx_runtime.is_there() else None
    if runtime is not None and runtime.origin is not None:
        yield Path(runtime.origin).read_bytes()  # states its version
