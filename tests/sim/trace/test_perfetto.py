"""The timeline keeps the trace-event format, and says what the run says."""

import json
from collections import defaultdict
from itertools import pairwise, product

import numpy as np
import pytest

from tests.sim.timing.test_simulate import random_decoded
from tests.sim.trace.test_events import counted, run_ahead
from vdla.hw.spec import isa
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.sim.timing.simulate import simulate
from vdla.sim.trace.events import tokens, work_begins
from vdla.sim.trace.layers import TracedLayer
from vdla.sim.trace.perfetto import PROCESS, Lane, lanes, trace_events, write_perfetto

WORK = {Lane.LOAD, Lane.COMPUTE, Lane.COMPUTE_LOADS, Lane.STORE}
REQUIRED = {
    "M": {"name", "args"},
    "X": {"name", "dur", "args"},
    "C": {"name", "args"},
    "s": {"id", "cat", "name"},
    "f": {"id", "cat", "name", "bp"},
}


@pytest.fixture(scope="module", params=range(6))
def timing(request):
    return simulate(random_decoded(request.param), log=True)


@pytest.fixture(scope="module")
def events(timing):
    return list(trace_events(timing))


def by_lane(events):
    lanes = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            lanes[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    return {lane: sorted(slices) for lane, slices in lanes.items()}


def arrows(events):
    """Return each arrow's name and the instructions of the slices on which its ends stand."""
    slices = [event for event in events if event["ph"] == "X"]
    ends = defaultdict(list)
    for event in events:
        if event["ph"] in "sf":
            [under] = [
                s for s in slices if s["tid"] == event["tid"] and s["ts"] <= event["ts"] < s["ts"] + s["dur"]
            ]
            ends[event["name"], event["id"]].append(under["args"]["instruction"])
    return sorted((name, *pair) for (name, _), pair in ends.items())


def test_every_event_has_what_its_phase_needs(timing, events):
    for event in events:
        assert {"pid", "tid", "ts"} | REQUIRED[event["ph"]] <= event.keys()
        assert 0 <= event["ts"] <= event["ts"] + event.get("dur", 0) <= timing.cycles
        assert event.get("dur", 1) >= 1


def test_slices_of_a_lane_do_not_overlap(events):
    for lane, slices in by_lane(events).items():
        for (_, end), (begin, _) in pairwise(slices):
            assert end <= begin, Lane(lane)


def test_no_lane_passes_for_the_main_thread():
    assert PROCESS not in list(Lane)


def test_every_lane_has_a_name(events):
    named = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert [named[lane] for lane in lanes(())] == [
        "fetch",
        "load",
        "load state",
        "compute",
        "compute state",
        "compute loads",
        "store",
        "store state",
        "memory",
    ]


def test_every_instruction_has_a_slice_with_its_text_and_times(timing, events):
    slices = {
        event["args"]["instruction"]: event for event in events if event["ph"] == "X" and event["tid"] in WORK
    }
    assert len(slices) == len(timing.program)
    for index, event in slices.items():
        assert event["args"]["started"] == timing.started[index]
        assert event["ts"] + event["dur"] - 1 == event["args"]["retired"] == timing.retired[index]
        assert event["args"]["text"].startswith(timing.program.instruction(index).opcode.name)


def test_arrows_come_in_pairs_that_stand_on_slices(timing, events):
    lanes = by_lane(events)
    ends = defaultdict(dict)
    for event in events:
        if event["ph"] in "sf":
            ends[event["id"]][event["ph"]] = event
            assert any(begin <= event["ts"] < end for begin, end in lanes[event["tid"]])
    assert len(ends) == timing.program.pops.sum()
    assert all(pair["s"]["ts"] < pair["f"]["ts"] for pair in ends.values())


def test_arrows_join_the_instructions_that_push_and_pop(timing, events):
    assert arrows(events) == sorted(
        (str(token.edge), token.producer, token.consumer) for token in tokens(timing)
    )


def test_with_several_tokens_held_arrows_do_not_cross():
    assert arrows(list(trace_events(run_ahead()))) == [
        ("load->compute", producer, producer + 3) for producer in (1, 2, 3)
    ]


def test_no_token_is_popped_before_it_is_pushed(timing):
    for token in tokens(timing):
        assert timing.retired[token.producer] < timing.started[token.consumer]


@pytest.mark.parametrize("edge", range(len(TOKEN_EDGES)), ids=map(str, TOKEN_EDGES))
def test_counters_show_the_tokens_held(timing, events, edge):
    own = [event for event in events if event["ph"] == "C" and event["name"] == f"tokens {TOKEN_EDGES[edge]}"]
    steps = [(event["ts"], event["args"]["held"]) for event in own]
    expected = counted(timing, edge).tolist()
    changes = [
        (cycle, count) for cycle, count in enumerate(expected) if cycle == 0 or count != expected[cycle - 1]
    ]
    assert steps == (changes if any(expected) else [])


def test_waits_add_up_with_the_counters(timing, events):
    waited = sum(sum(event["args"]["waits"].values()) for event in events if "waits" in event.get("args", {}))
    spans = timing.log.spans
    assert waited == sum(
        int(span["end"] - span["begin"]) for span in spans if span["instruction"] >= 0 and span["state"] != 0
    )


def test_the_beats_of_the_memory_lane_are_those_counted(timing, events):
    named = [
        int(event["name"].split()[1])
        for event in events
        if event["ph"] == "X" and event["tid"] == Lane.MEMORY
    ]
    assert sum(named) == sum(value for name, value in timing.counters.items() if name.endswith("_BEATS"))


def test_work_begins_behind_the_instruction_before(timing):
    begins = work_begins(timing)
    loads = timing.program.opcode == isa.Opcode.LOAD
    for unit, kind in product(Unit, (loads, ~loads)):
        own = (timing.program.unit == unit) & kind
        assert (begins[own][1:] > timing.retired[own][:-1]).all()


def test_the_file_is_whole_json_and_nothing_else_is_left(tmp_path, timing, events):
    write_perfetto(timing, tmp_path / "trace.json")
    read = json.loads((tmp_path / "trace.json").read_text())
    assert len(read["traceEvents"]) == len(events)
    assert read["otherData"]["cycles"] == timing.cycles
    assert "memory latency" not in read["otherData"]
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


def test_the_file_tells_what_was_simulated(tmp_path, timing):
    write_perfetto(timing, tmp_path / "trace.json", MemoryParameters(7, 3))
    config = timing.program.config
    assert json.loads((tmp_path / "trace.json").read_text())["otherData"] == {
        "configuration": config.name,
        "digest": config.digest,
        "cycles": timing.cycles,
        "unit of time": "1 us is 1 cycle",
        "memory latency": 7,
        "memory depth": 3,
        "memory cycles_per_beat": 1,
    }


def test_a_run_without_a_log_is_refused(tmp_path):
    with pytest.raises(ValueError, match="without a log"):
        write_perfetto(simulate(random_decoded(0)), tmp_path / "trace.json")
    assert list(tmp_path.iterdir()) == []


def layered(timing):
    """Return two layers that share the instructions of a run, and one without any."""
    count, middle = len(timing.program), timing.cycles // 2
    return (
        TracedLayer("first", "Int8Conv", 0, middle, np.arange(0, count, 2)),
        TracedLayer("free", "Reshape", middle, middle, np.zeros(0, np.int64)),
        TracedLayer("second", "Int8Add", middle, timing.cycles, np.arange(1, count, 2)),
    )


def test_layers_have_a_lane_and_every_event_of_an_instruction_names_its_own(timing, events):
    found = list(trace_events(timing, layered(timing)))
    own = [event for event in found if event["ph"] == "X" and event["tid"] == Lane.LAYERS]
    assert [(event["name"], event["ts"], event["dur"]) for event in own] == [
        ("first", 0, timing.cycles // 2),
        ("second", timing.cycles // 2, timing.cycles - timing.cycles // 2),
    ]
    for event in found:
        args = event.get("args", {})
        instruction = args.get("instruction", args.get("next_instruction"))
        if event["ph"] == "X" and instruction is not None and instruction >= 0:
            assert args["layer"] == ("first", "second")[instruction % 2]
    names = {event["tid"]: event["args"]["name"] for event in found if event["name"] == "thread_name"}
    assert names[Lane.LAYERS] == "layers"
    assert not any("layer" in event.get("args", {}) or event["tid"] == Lane.LAYERS for event in events)
