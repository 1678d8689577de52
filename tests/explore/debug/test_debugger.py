"""Stepping, searching and breakpoints."""

import numpy as np
import pytest

import vdla
from tests.explore.debug.programs import ENDING, VECTORS, Source, recording, source
from tests.sim.timing.test_simulate import decoded
from vdla.explore.debug.debugger import Debugger, debuggers_of
from vdla.explore.debug.events import EventKind
from vdla.explore.debug.launches import vector_recording
from vdla.explore.debug.recording import NONE, DebugError, Recording
from vdla.explore.report.debug_page import page_content
from vdla.hw.spec.registers import Fault
from vdla.hw.spec.sdram import SdramParameters
from vdla.hw.spec.units import Unit
from vdla.runtime.session.report import report
from vdla.runtime.vectors import load_vector
from vdla.sim.timing.result import NEVER
from vdla.sim.trace.events import tokens
from vdla.sim.trace.layers import TracedLayer


def debugger_of(name: str = "conv3x3") -> Debugger:
    return Debugger(recording(name))


def layered() -> Debugger:
    """Return a run in three layers; nothing runs in the second."""
    plain = recording("conv3x3")
    cycles = plain.timing.cycles
    layers = (
        TracedLayer("first", "Conv", 0, 5000, np.arange(0, 100)),
        TracedLayer("empty", "Add", 5000, 5000, np.zeros(0, np.int64)),
        TracedLayer("last one", "Conv", 5000, cycles, np.arange(100, len(plain))),
    )
    return Debugger(Recording("net", plain.timing, plain.memory, layers))


def walk(debugger: Debugger, unit: Unit | None, count: int) -> list[tuple[int, int]]:
    """Return cycle and instruction of every stop until there is no other."""
    stops = []
    while debugger.next_instruction(unit, count):
        stops.append((debugger.cycle, debugger.selected))
    return stops


@pytest.mark.parametrize("unit", [None, *Unit], ids=str)
@pytest.mark.parametrize("name", ENDING)
def test_steps_by_instruction_stop_at_every_start_once_in_both_directions(name, unit):
    debugger, timing = debugger_of(name), recording(name).timing
    starts = [
        (int(cycle), index)
        for index, cycle in enumerate(timing.started)
        if cycle != NEVER and unit in (None, timing.program.unit[index])
    ]
    assert walk(debugger, unit, 1) == sorted(starts)
    debugger.goto(timing.cycles)
    assert walk(debugger, unit, -1) == sorted(starts, reverse=True)


def test_several_steps_are_one_step_several_times():
    single_step, multi_step = debugger_of(), debugger_of()
    for count in (3, 7, -4, 20, -25):
        for _ in range(abs(count)):
            single_step.next_instruction(None, 1 if count > 0 else -1)
        multi_step.next_instruction(None, count)
        assert (single_step.cycle, single_step.selected) == (multi_step.cycle, multi_step.selected)


def test_a_step_too_far_leaves_the_debugger_where_it_stood():
    debugger = debugger_of()
    debugger.goto(700)
    assert not debugger.next_instruction(None, 100_000)
    assert not debugger.next_instruction(None, -100_000)
    assert debugger.cycle == 700


def test_cycles_go_forwards_and_backwards_within_the_run():
    debugger = debugger_of()
    debugger.step(10)
    assert debugger.cycle == 10
    first = debugger.state()
    debugger.step(500)
    debugger.step(-500)
    assert debugger.state() == first
    debugger.step(-99)
    assert debugger.cycle == 0
    debugger.step(10**9)
    assert debugger.cycle == debugger.timing.cycles


def test_layers_go_forwards_and_backwards():
    debugger = layered()
    debugger.goto(200)
    assert debugger.next_layer()
    assert debugger.cycle == 5000
    assert not debugger.next_layer()
    assert debugger.next_layer(-1)
    assert debugger.cycle == 0
    assert [debugger.states.layer(cycle) for cycle in (0, 4999, 5000, debugger.timing.cycles)] == [
        0,
        0,
        2,
        NONE,
    ]


def test_search_finds_assembly_and_layers_in_both_directions():
    debugger = layered()
    stores = [index for index, text in enumerate(debugger.recording.texts) if text.startswith("STORE")]
    matches = []
    while debugger.find("^STORE"):
        matches.append(debugger.selected)
    assert matches == stores
    assert debugger.find("^STORE", backwards=True)
    assert debugger.selected == stores[-2]
    debugger.goto(0)
    assert debugger.find("last o")
    first = 100 + int(np.argmin(debugger.timing.started[100:]))
    assert debugger.selected == first
    assert not debugger.find("nothing like this")
    assert debugger.selected == first


def test_an_instruction_tells_its_cycles_tokens_and_layer():
    debugger, timing = layered(), recording("conv3x3").timing
    pairs = {(str(token.edge), token.producer, token.consumer) for token in tokens(timing)}
    seen = set()
    for index in range(len(debugger.recording)):
        view = debugger.instruction(index)
        assert (view.queued, view.started, view.retired) == (
            timing.dispatched[index],
            timing.started[index],
            timing.retired[index],
        )
        assert view.unit == timing.program.unit[index]
        assert view.layer == ("first" if index < 100 else "last one")
        taken = {(str(token.edge), token.producer, token.consumer) for token in view.taken}
        given = {
            (str(token.edge), token.producer, token.consumer)
            for token in view.given
            if token.consumer != NONE
        }
        assert {consumer for _, _, consumer in taken} <= {index}
        assert {producer for _, producer, _ in given} <= {index}
        assert taken | given <= pairs
        seen |= taken
        assert len(view.taken) == timing.program.pops[index].sum()
        assert len(view.given) == timing.program.pushes[index].sum()
    assert seen == pairs


def test_a_unit_that_waits_is_explained_by_the_event_that_frees_it():
    debugger = debugger_of()
    debugger.goto(2696)
    chain = debugger.why(Unit.LOAD)
    assert (chain.event.kind, chain.event.instruction) == (EventKind.STARTED, 79)
    assert chain.event.cycle > 2696
    assert chain.links[0].text == "a token compute->load"
    debugger.goto(2755)
    chain = debugger.why(Unit.COMPUTE)
    assert (chain.event.kind, chain.event.instruction) == (EventKind.RETIRED, 45)


def test_an_empty_queue_is_explained_by_the_dispatch_that_fills_it():
    debugger = debugger_of()
    debugger.goto(50)
    chain = debugger.why(Unit.COMPUTE)
    assert (chain.event.kind, chain.event.instruction) == (EventKind.QUEUED, 0)
    assert chain.links[0].text == "fetch of the instruction"


def test_the_path_of_a_layer_covers_its_cycles():
    debugger = layered()
    for layer in (debugger.recording.layers[0], debugger.recording.layers[2]):
        chain = debugger.path(layer)
        last = debugger.timing.retired[layer.instructions].max()
        assert chain.event.cycle == last
        assert chain.root.cycle <= layer.begin
        assert chain.cycles == last - chain.root.cycle
    assert debugger.path().cycles == debugger.timing.cycles


CONDITIONS = {
    "tokens load->compute >= 2": lambda state: state.tokens[0].held >= 2,
    "tokens store->compute < 1": lambda state: state.tokens[3].held < 1,
    "queue load == 3": lambda state: len(state.units[0].queue) == 3,
    "queue compute == 64": lambda state: len(state.units[1].queue) == 64,
    "LOAD_BUSY >= 20": lambda state: state.counters["LOAD_BUSY"] >= 20,
    "STORE_MEMORY > 30": lambda state: state.counters["STORE_MEMORY"] > 30,
    "STORE_MEMORY == 30": lambda state: state.counters["STORE_MEMORY"] == 30,
    "LOAD_BUSY < 20": lambda state: state.counters["LOAD_BUSY"] < 20,
    "LOAD_BUSY >= 1000000": lambda state: state.counters["LOAD_BUSY"] >= 1000000,
    "GEMM_STEPS > 100": lambda state: state.counters["GEMM_STEPS"] > 100,
    "ALU_STEPS == 37": lambda state: state.counters["ALU_STEPS"] == 37,
    "INP_BEATS >= 5": lambda state: state.counters["INP_BEATS"] >= 5,
    "FETCH_BEATS == 3": lambda state: state.counters["FETCH_BEATS"] == 3,
    "OUT_BEATS > 1": lambda state: state.counters["OUT_BEATS"] > 1,
}


def stores(debugger: Debugger) -> list[int]:
    return [index for index, text in enumerate(debugger.recording.texts) if text.startswith("STORE")]


@pytest.fixture(scope="module")
def rising() -> dict[str, list[int]]:
    """Return the cycles at which each condition begins to hold, by looking at every state."""
    debugger = debugger_of()
    before = {text: holds(debugger.states.at(0)) for text, holds in CONDITIONS.items()}
    begins = {text: [] for text in CONDITIONS}
    for cycle in range(1, debugger.timing.cycles + 1):
        state = debugger.states.at(cycle)
        now = {text: holds(state) for text, holds in CONDITIONS.items()}
        for text in CONDITIONS:
            if now[text] and not before[text]:
                begins[text].append(cycle)
        before = now
    return begins


def check_stops(text: str, expected: list[int]) -> None:
    """Assert that a breakpoint stops at some cycles, forwards and backwards."""
    debugger = debugger_of()
    debugger.add_breakpoint(text.split())
    stops = []
    while debugger.resume() is not None:
        stops.append(debugger.cycle)
    assert stops == expected
    assert debugger.cycle == debugger.timing.cycles
    back = []
    while debugger.resume(backwards=True) is not None:
        back.append(debugger.cycle)
    assert back == expected[::-1]
    assert debugger.cycle == 0


@pytest.mark.parametrize("text", CONDITIONS)
def test_a_breakpoint_stops_where_its_condition_begins_to_hold(text, rising):
    check_stops(text, rising[text])


def test_breakpoints_on_instructions_stop_at_their_starts():
    debugger = debugger_of()
    check_stops("instruction 45", [int(debugger.timing.started[45])])
    check_stops("/^STORE/", [int(debugger.timing.started[index]) for index in stores(debugger)])


def test_the_conditions_hold_at_some_cycles(rising):
    never = {text for text, cycles in rising.items() if not cycles}
    assert never == {"LOAD_BUSY < 20", "LOAD_BUSY >= 1000000"}


def test_an_address_stops_at_the_transfers_that_move_its_byte():
    debugger = debugger_of()
    store = debugger.recording.program.instruction(last := 55)
    size = debugger.recording.program.config.element_bytes(store.memory_type)
    first = store.dram_base * size
    row = store.x_size * size
    for address, hits in ((first, True), (first + row - 1, True), (first + store.y_size * row + size, False)):
        address_breakpoint = debugger.add_breakpoint(["address", hex(address)])
        assert (debugger.timing.started[last] in address_breakpoint.cycles) == hits


def test_the_nearest_of_several_breakpoints_stops():
    debugger = debugger_of()
    debugger.add_breakpoint(["instruction", "300"])
    debugger.add_breakpoint(["instruction", "45"])
    assert debugger.resume().text == "instruction 45"
    assert debugger.resume().text == "instruction 300"
    assert debugger.resume() is None


REFUSED = {
    "cycle": (
        lambda debugger: debugger.goto(99999),
        "cycle 99999 is outside the run, whose cycles are 0 to 14920; choose one of these",
    ),
    "instruction": (
        lambda debugger: debugger.goto_instruction(324),
        "instruction 324 is outside the stream, whose instructions are 0 to 323; choose one of these",
    ),
    "negative": (
        lambda debugger: debugger.why(-1),
        "instruction -1 is outside the stream, whose instructions are 0 to 323; choose one of these",
    ),
    "pattern": (
        lambda debugger: debugger.find("GEMM("),
        "the pattern GEMM( is no regular expression of Python (missing ), unterminated subpattern at position 4); put \\ before the characters that stand for themselves",
    ),
    "layer": (lambda debugger: debugger.layer("x"), "no layer is called x: this run has no layers"),
    "busy": (
        lambda debugger: debugger.why(Unit.LOAD),
        "the load unit does not wait in cycle 0 (idle); go to a cycle in which it waits, or name an instruction",
    ),
    "form": (
        lambda debugger: debugger.add_breakpoint(["often"]),
        "the condition 'often' has no form of a breakpoint; write instruction N, /PATTERN/, address N, element MEMORY N, tokens EDGE OP N, queue UNIT OP N or COUNTER OP N with an OP of >= <= == > <",
    ),
    "edge": (
        lambda debugger: debugger.add_breakpoint(["tokens", "load->store", ">", "1"]),
        "there is no token edge load->store; choose load->compute, compute->load, compute->store, store->compute",
    ),
    "sign": (
        lambda debugger: debugger.add_breakpoint(["queue", "load", "=>", "1"]),
        "'=>' is not a comparison; write one of >= <= == > <",
    ),
    "number": (
        lambda debugger: debugger.add_breakpoint(["queue", "load", ">", "many"]),
        "'many' is not a number to compare with; write a whole number, such as 64 or 0x40",
    ),
    "counter": (
        lambda debugger: debugger.add_breakpoint(["BEATS", ">", "1"]),
        "there is no counter BEATS; choose LOAD_BUSY,",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_exist_is_refused_with_what_does(case):
    act, text = REFUSED[case]
    with pytest.raises(DebugError) as caught:
        act(debugger_of())
    assert str(caught.value).startswith(text)


def test_layers_are_named_where_a_name_is_wrong():
    with pytest.raises(DebugError, match="no layer is called x: the layers are first, empty, last one"):
        layered().layer("x")
    with pytest.raises(DebugError, match="no instruction of the layer empty retires"):
        layered().path(layered().layer("empty"))


def test_a_recording_needs_a_log():
    from vdla.sim.timing.simulate import simulate

    with pytest.raises(ValueError, match="simulated without a log"):
        Recording("x", simulate(source("gemm").program))


def test_a_module_gives_a_debugger_for_each_launch():
    from tests.cli.models import model

    module = vdla.compile(model().SerializeToString(), "tiny")
    outcome = module.rehearse()
    debuggers = debuggers_of(module.plan, outcome, report(module.plan, outcome, "cycle"))
    assert [debugger.timing.cycles for debugger in debuggers] == [
        ran.result.cycles for ran in outcome.launches
    ]
    assert len(debuggers) == 2
    names = [layer.name for debugger in debuggers for layer in debugger.recording.layers]
    assert names == [layer.name for step in module.plan.launches for layer in step.layers]
    assert [debugger.recording.name for debugger in debuggers] == [
        f"{module.plan.name} {number}" for number in (1, 2)
    ]
    assert debuggers[0].path(debuggers[0].recording.layers[0]).cycles > 0


def test_a_stream_without_instructions_has_a_state_and_a_path():
    debugger = Debugger(Source(decoded()).recording())
    assert debugger.timing.fault is Fault.UNFINISHED
    debugger.goto(5)
    state = debugger.state()
    assert [view.text for view in state.units] == ["idle"] * 3 or all(view.waits for view in state.units)
    assert (state.dispatch.following, state.bursts) == (NONE, ())
    assert debugger.path().cycles == debugger.timing.cycles
    assert not debugger.next_instruction()
    assert not debugger.find("LOAD")
    with pytest.raises(DebugError, match="instruction 0 is outside the stream"):
        debugger.goto_instruction(0)
    assert page_content(debugger.recording)


def test_runs_with_an_sdram_are_refused():
    vector = load_vector(VECTORS / "conv3x3_d.npz")
    with pytest.raises(DebugError, match=r"memory is an SDRAM.* choose the reference memory with --latency"):
        vector_recording(vector, SdramParameters())
