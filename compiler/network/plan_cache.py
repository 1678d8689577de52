"""Cache on disk of compiled networks: modules, and the graphs of integer operators that they are compiled
from.

The key of a graph covers the model, its quantisation inputs, and the version of the kit. The key of a module
also covers the target and the tuned records for it. Models with external data are not cached.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import msgspec
import numpy as np

from vdla.compiler.codegen.tuned.best_records import TuningRecords
from vdla.compiler.codegen.version import network_version
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.quantisation.options import Options
from vdla.compiler.graph.section import WHOLE, Section
from vdla.compiler.graph.serialise import graph_from_bytes, graph_to_bytes
from vdla.compiler.graph.source import ModelMessage, ModelSource
from vdla.compiler.network.tuning import Tuning, tuning_from, tuning_text
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.limits import ARRAY_BYTES, FACTOR, limit_of
from vdla.hw.spec.shelf import Shelf
from vdla.hw.spec.target import Target
from vdla.runtime.host import onnx_runtime
from vdla.runtime.module.file import from_bytes, to_bytes
from vdla.runtime.module.plan import Fidelity, Plan
from vdla.runtime.samples.given import Given

MODULES = Shelf("modules", 512 << 20)  # modules carry their graphs, about as large as their weights
GRAPHS = Shelf("graphs", 256 << 20)
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

    def key(self) -> str | None:
        """Return the digest of all inputs; None if the model cannot be read or has external data."""
        model = self._bytes()
        if model is None or EXTERNAL_DATA in model:
            return None
        shapes = {name: list(shape) for name, shape in (self.shapes or {}).items()}
        part = self.section.inputs, self.section.outputs, self.section.fixed
        options = repr((shapes, part, self.options, os.environ.get(FACTOR), self.samples is None))
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


def load_plan(key: str, target: Target, records: TuningRecords) -> tuple[Plan, Tuning] | None:
    """Return the cached plan for the graph of a key, a target and records, and the report on the use of the
    records; None if it is not in the cache."""
    data = MODULES.read(_of_target(key, target, records))
    if data is None:
        return None
    tuning, _, module = data.partition(b"\n")
    return from_bytes(module), tuning_from(tuning)


def store_plan(key: str, target: Target, records: TuningRecords, plan: Plan, tuning: Tuning) -> None:
    """Cache a plan and the report on the use of records."""
    MODULES.write(_of_target(key, target, records), tuning_text(tuning) + b"\n" + to_bytes(plan))


def load_graph(key: str) -> tuple[Graph, Fidelity | None] | None:
    """Return the cached graph of a key and its fidelity to the float graph; None if it is not in the
    cache."""
    data = GRAPHS.read(key)
    if data is None:
        return None
    fidelity, _, graph = data.partition(b"\n")
    return graph_from_bytes(graph), msgspec.json.decode(fidelity, type=Fidelity | None)


def store_graph(key: str, graph: Graph, fidelity: Fidelity | None) -> None:
    """Cache a graph and its fidelity to the float graph."""
    GRAPHS.write(key, msgspec.json.encode(fidelity) + b"\n" + graph_to_bytes(graph))


def _of_target(key: str, target: Target, records: TuningRecords) -> str:
    return digest_of([key, target.name, target.digest, target.clock_source, records.digest(target)])


def _libraries() -> Iterable[bytes]:
    """Yield the versions of NumPy, `onnx` and onnxruntime, without importing the latter two."""
    yield np.__version__.encode()
    spec = find_spec("onnx")
    if spec is not None and spec.origin is not None:
        yield (Path(spec.origin).parent / "version.py").read_bytes()
    runtime = find_spec(onnx_runtime.PACKAGE) if onnx_runtime.is_there() else None
    if runtime is not None and runtime.origin is not None:
        yield Path(runtime.origin).read_bytes()  # states its version
