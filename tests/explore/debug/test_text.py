"""States, instructions and chains as text."""

import numpy as np
import pytest

from tests.explore.debug.programs import recording
from vdla.explore.debug.debugger import Debugger
from vdla.explore.debug.recording import Recording
from vdla.explore.debug.text import (
    chain_lines,
    counter_lines,
    instruction_lines,
    layer_lines,
    place_line,
    reason_lines,
    state_lines,
)
from vdla.hw.spec.units import Unit
from vdla.sim.trace.layers import TracedLayer

STORES = """\
cycle 550 of 686
  load     idle
           queue        0 of 16
  compute  waits for a token store->compute
           next         4 FINISH(pop_next=1)
           queue        1 of 16: 4
  store    busy
           in progress  3 STORE(pop_prev=1, push_prev=1, memory_type=OUT, dram_base=16384, y_size=1, x_size=16, x_stride=16)
           queue        0 of 16
  dispatch has moved every instruction
  tokens   load->compute 0, compute->load 0, compute->store 0, store->compute 0 and 1 promised
  memory   no burst in flight"""
TURNS = """\
instruction 1 starts: never
     cycles     at cycle  waited for
          0        never  a token load->compute: instruction 0 retires
          0        never  its execution: instruction 0 starts
          0        never  a token compute->load: instruction 1 retires
          0        never  its execution: instruction 1 starts
          0               sum of 4 links, to instruction 1 starts: a cycle of waits"""
MISSES = """\
instruction 1 starts: never
     cycles     at cycle  waited for
          0        never  a token load->compute: no instruction of the stream does this
          0               sum of 1 link, to an event that no instruction of the stream provides"""
FINISHES = """\
the run ends: cycle 85
     cycles     at cycle  waited for
          3           82  run control begins or ends the run: instruction 0 retires
         10           72  its execution: instruction 0 starts
          1           71  its dispatch: instruction 0 enters its queue
          2           69  fetch of the instruction: burst 0 of fetch moves its last beat
         66            3  the latency of memory: burst 0 of fetch is requested
          3               1 link more
         85               sum of 8 links, back to cycle 0: the run begins"""
SUMS = """\
     cycles   share   links  waited for
         64   75.3%       1  the latency of memory
         10   11.8%       1  its execution
          6    7.1%       2  run control begins or ends the run
          2    2.4%       1  fetch of the instruction
          1    1.2%       1  its dispatch
          1    1.2%       1  memory accepts the request
          1    1.2%       1  the beats of the burst"""


def debugger_at(name: str, cycle: int = 0) -> Debugger:
    debugger = Debugger(recording(name))
    debugger.goto(cycle if cycle >= 0 else debugger.timing.cycles + cycle)
    return debugger


def text(lines) -> str:
    return "\n".join(lines)


def test_a_state_reads_as_expected():
    assert text(state_lines(debugger_at("load strided", 550))) == STORES


def test_bursts_and_long_queues_are_cut():
    lines = text(state_lines(debugger_at("conv3x3", 2696)))
    assert "queue        64 of 64: 45, 46, 47, 48, 49, 50, ...\n" in lines
    debugger = debugger_at("load strided")
    debugger.find("LOAD")
    seen = set()
    for _ in range(300):
        debugger.step()
        seen.add(list(state_lines(debugger))[-1].partition(": ")[2].rpartition(" ")[2])
    assert {"requested", "accepted", "moving"} <= seen


@pytest.mark.parametrize(("name", "expected"), [("cycle of waits", TURNS), ("token missing", MISSES)])
def test_a_chain_of_a_deadlock_reads_as_expected(name, expected):
    assert text(chain_lines(debugger_at(name, -1).why(Unit.COMPUTE), 20)) == expected


def test_a_path_reads_as_expected_and_is_cut():
    path = debugger_at("finish alone").path()
    assert text(chain_lines(path, 5)) == FINISHES
    assert text(reason_lines(path)) == SUMS


def test_an_instruction_reads_as_expected():
    debugger = debugger_at("token missing")
    assert text(instruction_lines(debugger.instruction(1))) == (
        "instruction 1  GEMM(pop_prev=1)\n"
        "  compute unit\n"
        "  queued in cycle 73, starts never, retires never\n"
        "  takes a token load->compute that no instruction gives"
    )
    lines = list(instruction_lines(debugger_at("cycle of waits").instruction(0)))
    assert lines[3:] == [
        "  takes a token compute->load that instruction 1 gives",
        "  gives a token load->compute that instruction 1 takes",
    ]
    assert "  gives a token load->compute that no instruction takes" in list(
        instruction_lines(debugger_at("no room ever").instruction(0))
    )


def test_the_place_names_layer_and_instruction():
    plain = recording("finish alone")
    layers = (
        TracedLayer("all", "Conv", 0, 85, np.arange(1)),
        TracedLayer("none", "Add", 85, 85, np.zeros(0, np.int64)),
    )
    debugger = Debugger(Recording("net", plain.timing, plain.memory, layers))
    debugger.goto_instruction(0)
    assert place_line(debugger) == "cycle 72 of 85, layer all, 0 FINISH()"
    assert list(layer_lines(debugger)) == [
        "     0  all  cycles 0 to 85, 1 instruction, 0 to 0",
        "     1  none  cycles 85 to 85, no instructions",
    ]
    assert list(instruction_lines(debugger.instruction(0)))[1] == "  compute unit, layer all"


def test_counters_are_listed_by_name():
    lines = list(counter_lines(debugger_at("finish alone", 85).state()))
    assert [line.split() for line in lines if "COMPUTE_" in line][:2] == [
        ["COMPUTE_BUSY", "2"],
        ["COMPUTE_MEMORY", "0"],
    ]
