"""Compilation with a cache shared between processes; the heavy part of the compiler is imported on a miss."""

from collections.abc import Callable
from dataclasses import replace

from vdla.compiler.codegen.tuned.best_records import NO_RECORDS, TuningRecords
from vdla.compiler.graph.nodes import Graph
from vdla.compiler.network.plan_cache import Source, load_graph, load_plan, store_graph, store_plan
from vdla.compiler.network.tuning import Tuning, tuned_plan
from vdla.hw.spec.target import Target
from vdla.runtime.module.plan import Fidelity, Plan

Progress = Callable[[str], None]


def cached_plan(source: Source, target: Target, progress: Progress = lambda text: None) -> Plan:
    """Return the plan of a network for a target, from the cache if it is there.

    Raises:
        GraphError: the model cannot be imported; or it is of floats, and no samples were given.
        InputError: the samples do not fit the network.
    """
    return cached_tuned_plan(source, target, NO_RECORDS, progress)[0]


def cached_tuned_plan(
    source: Source, target: Target, records: TuningRecords, progress: Progress = lambda text: None
) -> tuple[Plan, Tuning]:
    """Return the plan of a network for a target, with the choices of tuned records and a report on their use.

    Raises:
        GraphError, InputError: as `cached_plan`.
    """
    key = source.key()
    cached = None if key is None else load_plan(key, target, records)
    return _compiled(source, key, target, records, progress) if cached is None else cached


def cached_graph(source: Source, progress: Progress = lambda text: None) -> Graph:
    """Return the graph of integer operators of a network, from the cache if it is there.

    Raises:
        GraphError: the model cannot be imported; or it is of floats, and no samples were given.
        InputError: the samples do not fit the network.
    """
    return _graph(source, source.key(), progress)[0]


def _graph(source: Source, key: str | None, progress: Progress) -> tuple[Graph, Fidelity | None, str | None]:
    """Return the graph of a source, its fidelity to the float graph, and its key; from the cache if it is
    there."""
    cached = None if key is None else load_graph(key)
    return _imported(source, key, progress) if cached is None else (*cached, key)


def _compiled(
    source: Source, key: str | None, target: Target, records: TuningRecords, progress: Progress
) -> tuple[Plan, Tuning]:
    from vdla.compiler.codegen.choice_cache import cached

    graph, fidelity, key = _graph(source, key, progress)
    plan, tuning = tuned_plan(graph, target, records, cached(), progress)
    plan = replace(plan, fidelity=fidelity)
    if key is not None:
        store_plan(key, target, records, plan, tuning)
    return plan, tuning


def _imported(
    source: Source, key: str | None, progress: Progress
) -> tuple[Graph, Fidelity | None, str | None]:
    """Import a source. Return its graph, the fidelity to the float graph, and its key, or None instead of the
    key if the model's file has changed meanwhile."""
    from vdla.compiler.network.compile import imported, integers_of

    progress("import")
    loaded = imported(source)
    lowered = integers_of(loaded.graph, loaded.samples, source.options, progress)
    if key is None or source.key() != key:
        return lowered.graph, lowered.fidelity, None
    store_graph(key, lowered.graph, lowered.fidelity)
    return lowered.graph, lowered.fidelity, key
