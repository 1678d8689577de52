"""Compilation with a cache on disk: modules, and the graphs of integer operators that they are compiled from.

The key of a graph covers the model, its quantisation inputs, and the version of the kit. The key of a module
also covers the target and the tuned records for it. Models with external data are not cached. The
heavy part of the compiler is imported on a miss.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import msgspec

from vdla.compiler.codegen.tuned.best_records import NO_RECORDS, Tuning, TuningRecords
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.graph.serialise import graph_from_bytes, graph_to_bytes
from vdla.compiler.network.source import Source
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.shelf import Shelf
from vdla.hw.spec.target import Target
from vdla.runtime.module.file import Packed, from_bytes, packed
from vdla.runtime.module.plan import Fidelity, Plan

Progress = Callable[[str], None]
MODULES = Shelf("modules", 512 << 20)  # modules carry their graphs, about as large as their weights
GRAPHS = Shelf("graphs", 256 << 20)


class CachedPlan(NamedTuple):
    """A compiled network.

    Attributes:
        plan: of the network.
        tuning: report on the use of tuned records.
        file: the bytes of the module's file, part after part; None where the network is not cached.
    """

    plan: Plan
    tuning: Tuning
    file: Packed | None


def cached_tuned_plan(
    source: Source,
    target: Target,
    records: TuningRecords = NO_RECORDS,
    progress: Progress = lambda text: None,
) -> CachedPlan:
    """Return the plan of a network for a target, from the cache if it is there, with the choices of tuned
    records and a report on their use.

    Raises:
        GraphError: the model cannot be imported; or it is of floats, and no samples were given.
        InputError: the samples do not fit the network.
    """
    source = source.for_target(target)
    key = source.key()
    data = None if key is None else MODULES.read(_of_target(key, target, records))
    if data is not None:
        report, _, module = data.partition(b"\n")
        return CachedPlan(from_bytes(module), msgspec.json.decode(report, type=Tuning), (module,))
    from vdla.compiler.codegen.choice_cache import cached
    from vdla.compiler.network.tuning import tuned_plan

    graph, fidelity, key = _graph(source, key, progress)
    plan, tuning = tuned_plan(graph, target, records, cached(), progress)
    plan = replace(plan, fidelity=fidelity)
    if key is None:
        return CachedPlan(plan, tuning, None)
    file = packed(plan)
    MODULES.write(_of_target(key, target, records), msgspec.json.encode(tuning), b"\n", *file)
    return CachedPlan(plan, tuning, file)


def cached_graph(source: Source, progress: Progress = lambda text: None) -> Graph:
    """Return the graph of integer operators of a network, from the cache if it is there.

    Raises:
        GraphError, InputError: as `cached_tuned_plan`.
    """
    return _graph(source, source.key(), progress)[0]


def _graph(source: Source, key: str | None, progress: Progress) -> tuple[Graph, Fidelity | None, str | None]:
    """Return the graph of a source, from the cache if it is there, and its fidelity to the float graph.
    Return its key, or None if the model's file changes while it is imported."""
    data = None if key is None else GRAPHS.read(key)
    if data is not None:
        fidelity, _, graph = data.partition(b"\n")
        return graph_from_bytes(graph), msgspec.json.decode(fidelity, type=Fidelity | None), key
    from vdla.compiler.network.compile import imported, integers_of

    progress("import")
    loaded = imported(source)
    lowered = integers_of(loaded.graph, loaded.samples, source.options, progress)
    if key is None or source.key() != key:
        return lowered.graph, lowered.fidelity, None
    GRAPHS.write(key, msgspec.json.encode(lowered.fidelity), b"\n", graph_to_bytes(lowered.graph))
    return lowered.graph, lowered.fidelity, key


def _of_target(key: str, target: Target, records: TuningRecords) -> str:
    return digest_of([key, target.name, target.digest, target.clock_source, records.digest(target)])
