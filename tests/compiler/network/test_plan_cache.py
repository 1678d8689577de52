"""Networks compiled by earlier processes: the same modules, and none for another network, target or kit."""

from dataclasses import replace

import numpy as np
import onnx
import pytest

from tests.cli.models import float_model, model
from tests.compiler.codegen.tuned.records import record
from vdla.compiler.codegen.choose import simulated_cycles
from vdla.compiler.codegen.space import space_of
from vdla.compiler.codegen.tuned.best_records import NO_RECORDS, best_records
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.quantisation.options import Options
from vdla.compiler.graph.source import Section
from vdla.compiler.network import compile, plan_cache
from vdla.compiler.network import source as inputs
from vdla.compiler.network.plan_cache import cached_graph, cached_tuned_plan
from vdla.compiler.network.source import Source
from vdla.compiler.network.stages import parts_of, tasks_of
from vdla.compiler.tasks.base import choice_to_json
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.runtime.module.file import to_bytes
from vdla.runtime.samples.given import given_of

TARGET = Target(TINY)
QUANTISED = model().SerializeToString()
FLOATS = float_model().SerializeToString()
OTHER = model()
OTHER.graph.name = "other"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def recomputed(monkeypatch):
    """Return the list of recomputed imports and plans."""
    done = []

    def recording(name, function):
        return lambda *arguments, **named: (done.append(name), function(*arguments, **named))[1]

    monkeypatch.setattr(compile, "imported", recording("import", compile.imported))
    monkeypatch.setattr(plan_cache, "packed", recording("plan", plan_cache.packed))
    return done


def samples(seed=0):
    return given_of([{"x": np.random.default_rng(seed).normal(size=(1, 1, 8, 8)).astype(np.float32)}])


def bytes_of(source, target=TARGET):
    return to_bytes(cached_tuned_plan(source, target)[0])


def test_the_second_time_nothing_is_made_and_the_module_is_the_same(recomputed):
    first = bytes_of(Source(QUANTISED))
    assert first == to_bytes(compile.compile_network(QUANTISED, TARGET).plan)
    recomputed.clear()
    assert bytes_of(Source(QUANTISED)) == first
    assert recomputed == []


@pytest.mark.parametrize("is_cached", [False, True])
def test_a_plan_says_what_quantisation_cost(is_cached):
    source = Source(FLOATS, samples())
    if is_cached:
        cached_graph(source)
    wanted = compile.compile_network(FLOATS, TARGET, samples=samples()).plan.fidelity
    assert wanted is not None
    assert cached_tuned_plan(source, TARGET)[0].fidelity == wanted
    assert cached_tuned_plan(source, TARGET)[0].fidelity == wanted


def test_another_target_shares_the_graph(recomputed):
    bytes_of(Source(QUANTISED))
    recomputed.clear()
    target = Target(TINY.with_changes(acc_buffer_bytes=2 * TINY.acc_buffer_bytes))
    assert bytes_of(Source(QUANTISED), target) == to_bytes(compile.compile_network(QUANTISED, target).plan)
    assert recomputed == ["plan", "import"]  # the last by `compile_network`


OTHERS = [
    (Source(QUANTISED), replace(TARGET, clock_mhz=50)),
    (Source(QUANTISED), Target(TINY, MemoryParameters(65))),
    (Source(QUANTISED), Target(TINY.with_changes(name="other"))),
    (Source(OTHER.SerializeToString()), TARGET),
    (Source(QUANTISED, shapes={"x": (1, 1, 8, 8)}), TARGET),
    (Source(QUANTISED, section=Section(fixed=(("x", 1.0),))), TARGET),
    (Source(QUANTISED, samples()), TARGET),
    (Source(FLOATS, samples()), TARGET),
    (Source(FLOATS, samples(1)), TARGET),
    (Source(FLOATS, samples(), Options(99.0)), TARGET),
]


def test_whatever_differs_is_kept_apart(cache):
    for source, target in [(Source(QUANTISED), TARGET), *OTHERS]:
        cached_tuned_plan(source, target)
    assert len(list((cache / "modules").iterdir())) == 1 + len(OTHERS)


def test_another_kit_or_library_makes_all_anew(recomputed, monkeypatch):
    bytes_of(Source(QUANTISED))
    for name, value in (("network_version", lambda: "other"), ("_libraries", lambda: ["other"])):
        recomputed.clear()
        monkeypatch.setattr(inputs, name, value)
        bytes_of(Source(QUANTISED))
        assert recomputed == ["import", "plan"]


@pytest.mark.parametrize("kind", ["graphs", "modules"])
@pytest.mark.parametrize("place", [0.0, 0.5, 0.999])
def test_a_flipped_bit_in_an_entry_makes_it_anew(cache, recomputed, kind, place):
    first = bytes_of(Source(QUANTISED))
    (file,) = (cache / kind).iterdir()
    data = bytearray(file.read_bytes())
    data[int(place * len(data))] ^= 1
    file.write_bytes(data)
    if kind == "graphs":
        next((cache / "modules").iterdir()).unlink()
    recomputed.clear()
    assert bytes_of(Source(QUANTISED)) == first
    assert "plan" in recomputed


def test_an_entry_of_another_network_is_not_taken(cache):
    bytes_of(Source(QUANTISED))
    (file,) = (cache / "modules").iterdir()
    expected = bytes_of(Source(FLOATS, samples()))
    (entry,) = set((cache / "modules").iterdir()) - {file}
    entry.write_bytes(file.read_bytes())
    assert bytes_of(Source(FLOATS, samples())) == expected


def test_a_model_with_elements_in_other_files_is_not_kept(tmp_path, cache, recomputed):
    path = tmp_path / "network.onnx"
    onnx.save(model(), path, save_as_external_data=True, location="elements.bin", size_threshold=0)
    for _ in range(2):
        recomputed.clear()
        cached_tuned_plan(Source(path), TARGET)
        assert recomputed == ["import"]
    assert not (cache / "modules").exists()


def test_a_model_that_changes_while_it_is_compiled_is_not_kept(tmp_path, cache, monkeypatch):
    path = tmp_path / "network.onnx"
    path.write_bytes(QUANTISED)

    def replaced(*arguments, **named):
        path.write_bytes(OTHER.SerializeToString())
        return real(*arguments, **named)

    real = compile.imported
    monkeypatch.setattr(compile, "imported", replaced)
    cached_tuned_plan(Source(path), TARGET)
    assert not (cache / "modules").exists()


def test_what_cannot_be_compiled_is_refused_each_time():
    for _ in range(2):
        with pytest.raises(GraphError, match="is a float network"):
            cached_tuned_plan(Source(FLOATS), TARGET)


def slowest_record():
    """Return the record of the worst choice for a task of the network that has several."""
    _, parted = parts_of(cached_graph(Source(QUANTISED)), TARGET)
    task, space = next((task, space) for task in tasks_of(parted) if len(space := space_of(task, TARGET)) > 1)
    choice = max(map(space.choice, range(8)), key=lambda candidate: simulated_cycles(task, candidate, TARGET))
    return record(1, task=str(task), choice=choice_to_json(choice))


def test_a_plan_is_kept_for_the_records_that_made_it(recomputed):
    plain, none, _ = cached_tuned_plan(Source(QUANTISED), TARGET, NO_RECORDS)
    records = best_records("log", [slowest_record()])
    tuned, some, _ = cached_tuned_plan(Source(QUANTISED), TARGET, records)
    assert to_bytes(tuned) != to_bytes(plain)
    assert (none.with_record, some.with_record) == (0, 1)
    assert set(none.without_record) > set(some.without_record)
    recomputed.clear()
    for given, plan, tuning in ((NO_RECORDS, plain, none), (records, tuned, some)):
        again = cached_tuned_plan(Source(QUANTISED), TARGET, given)
        assert (to_bytes(again[0]), again[1]) == (to_bytes(plan), tuning)
    assert recomputed == []
    whole = compile.compile_network(QUANTISED, TARGET, records=records)
    assert (to_bytes(whole.plan), whole.tuning) == (to_bytes(tuned), some)
