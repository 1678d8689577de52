"""The timeline keeps the trace-event format, and says what the run says."""

import json
from collections import defaultdict
from itertools import pairwise, product

import numpy as np
import pytest

from tests.sim.timing.test_simulate import decoded, random_decoded
from tests.sim.trace.test_events import counted, run_ahead
from vdla.hw.spec import isa
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.hw.spec.vocabulary import MemoryType
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
    counters = [
        event for event in events if event["ph"] == "C" and event["name"] == f"tokens {TOKEN_EDGES[edge]}"
    ]
    steps = [(event["ts"], event["args"]["held"]) for event in counters]
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
        chosen = (timing.program.unit == unit) & kind
        assert (begins[chosen][1:] > timing.retired[chosen][:-1]).all()


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
    """Return two layers that share the instructions of a run, and a layer without any."""
    count, middle = len(timing.program), timing.cycles // 2
    return (
        TracedLayer("first", "Int8Conv", 0, middle, np.arange(0, count, 2)),
        TracedLayer("free", "Reshape", middle, middle, np.zeros(0, np.int64)),
        TracedLayer("second", "Int8Add", middle, timing.cycles, np.arange(1, count, 2)),
    )


def test_layers_have_a_lane_and_every_event_of_an_instruction_names_its_own(timing, events):
    traced = list(trace_events(timing, layered(timing)))
    slices = [event for event in traced if event["ph"] == "X" and event["tid"] == Lane.LAYERS]
    assert [(event["name"], event["ts"], event["dur"]) for event in slices] == [
        ("first", 0, timing.cycles // 2),
        ("second", timing.cycles // 2, timing.cycles - timing.cycles // 2),
    ]
    for event in traced:
        args = event.get("args", {})
        instruction = args.get("instruction", args.get("next_instruction"))
        if event["ph"] == "X" and instruction is not None and instruction >= 0:
            assert args["layer"] == ("first", "second")[instruction % 2]
    names = {event["tid"]: event["args"]["name"] for event in traced if event["name"] == "thread_name"}
    assert names[Lane.LAYERS] == "layers"
    assert not any("layer" in event.get("args", {}) or event["tid"] == Lane.LAYERS for event in events)


SLICES = [
    (Lane.LAYERS, "conv", 2, 18, {"operator": "Int8Conv", "instructions": 1}),
    (
        Lane.LOAD,
        "LOAD INP 1x1",
        11,
        8,
        {
            "instruction": 0,
            "text": "LOAD(push_next=1, memory_type=INP, y_size=1, x_size=1)",
            "dispatched": 10,
            "started": 11,
            "retired": 18,
            "waits": {},
            "layer": "conv",
        },
    ),
    (
        Lane.COMPUTE,
        "FINISH",
        19,
        11,
        {
            "instruction": 1,
            "text": "FINISH(pop_prev=1)",
            "dispatched": 12,
            "started": 19,
            "retired": 29,
            "waits": {"token_prev": 6},
        },
    ),
    (Lane.LOAD_STATE, "waits: instruction", 1, 10, {"next_instruction": -1}),
    (Lane.LOAD_STATE, "busy", 11, 1, {"next_instruction": 0, "layer": "conv"}),
    (Lane.COMPUTE_STATE, "waits: instruction", 1, 12, {"next_instruction": -1}),
    (Lane.STORE_STATE, "waits: instruction", 1, 12, {"next_instruction": -1}),
    (Lane.LOAD_STATE, "waits: memory", 12, 6, {"next_instruction": -1}),
    (Lane.LOAD_STATE, "busy", 18, 1, {"next_instruction": -1}),
    (Lane.COMPUTE_STATE, "waits for a token load->compute", 13, 6, {"next_instruction": 1}),
    (Lane.COMPUTE_STATE, "busy", 19, 1, {"next_instruction": 1}),
    (Lane.COMPUTE_STATE, "busy", 20, 1, {"next_instruction": -1}),
    (Lane.FETCH, "fetch 4 beats", 3, 8, {"asked": 3}),
    (Lane.MEMORY, "fetch 4 beats", 7, 4, {"instruction": -1, "asked": 3, "accepted": 4}),
    (Lane.MEMORY, "load 1 beats", 17, 1, {"instruction": 0, "asked": 13, "accepted": 14, "layer": "conv"}),
]
"""Of a LOAD and a FINISH that waits for its token: lane, name, begin, cycles and what else is told. The text
trace has the same times (`test_text.py`)."""


def short_run():
    load = isa.Load(memory_type=MemoryType.INP, y_size=1, x_size=1, push_next=1)
    return simulate(decoded(load, isa.Finish(pop_prev=1)), MemoryParameters(3, 4), log=True)


def test_a_short_program_has_the_events_expected():
    traced = list(trace_events(short_run(), (TracedLayer("conv", "Int8Conv", 2, 20, np.arange(1)),)))
    slices = [
        {"ph": "X", "pid": PROCESS, "tid": lane, "name": name, "ts": begin, "dur": length, "args": args}
        for lane, name, begin, length, args in SLICES
    ]
    token = {"pid": PROCESS, "cat": "token", "name": "load->compute", "id": 0}
    held = {"ph": "C", "pid": PROCESS, "tid": 0, "name": "tokens load->compute"}
    assert [event for event in traced if event["ph"] != "M"] == [
        *slices,
        {**token, "ph": "s", "tid": Lane.LOAD, "ts": 18},
        {**token, "ph": "f", "bp": "e", "tid": Lane.COMPUTE, "ts": 19},
        *({**held, "ts": cycle, "args": {"held": count}} for cycle, count in ((0, 0), (19, 1), (20, 0))),
    ]


@pytest.mark.parametrize("layers", [(), (TracedLayer("conv", "Int8Conv", 2, 20, np.arange(1)),)], ids=len)
def test_lanes_are_named_from_top_to_bottom(layers):
    shown = [*([Lane.LAYERS] if layers else []), *(lane for lane in Lane if lane is not Lane.LAYERS)]
    metadata = [event for event in trace_events(short_run(), layers) if event["ph"] == "M"]
    shared = {"ph": "M", "pid": PROCESS, "ts": 0}
    expected = [{**shared, "tid": 0, "name": "process_name", "args": {"name": "accelerator"}}]
    for place, lane in enumerate(shown, 1):
        name = lane.name.lower().replace("_", " ")
        expected += [
            {**shared, "tid": lane, "name": "thread_name", "args": {"name": name}},
            {**shared, "tid": lane, "name": "thread_sort_index", "args": {"sort_index": place}},
        ]
    assert metadata == expected


def test_a_layer_without_time_has_no_slice():
    layers = [
        TracedLayer("free", "Reshape", 5, 5, np.zeros(0, np.int64)),
        TracedLayer("one", "Add", 5, 6, np.arange(1)),
    ]
    lane_events = [event for event in trace_events(short_run(), layers) if event.get("tid") == Lane.LAYERS]
    assert [(event["name"], event["dur"]) for event in lane_events if event["ph"] == "X"] == [("one", 1)]


def test_a_file_holds_an_event_a_line(tmp_path):
    write_perfetto(short_run(), tmp_path / "trace.json")
    first, *lines, last = (tmp_path / "trace.json").read_text().splitlines()
    assert (first[:36], last) == ('{"displayTimeUnit": "ns", "otherData', "]}")
    assert [json.loads(line.removesuffix(",")) for line in lines] == list(trace_events(short_run()))
