"""The bursts of a run: as many beats as its rows touch, in the order in which memory accepts them."""

import numpy as np
import pytest

from tests.sim.timing.test_simulate import random_decoded
from vdla.hw.spec.footprint import forms_in_dram
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.timing import Client
from vdla.hw.spec.units import Unit
from vdla.sim.decoded import DecodedStream
from vdla.sim.rows import dram_rows
from vdla.sim.timing.result import Timing
from vdla.sim.timing.simulate import simulate

MEMORIES = (MemoryParameters(), MemoryParameters(3, 2, 2))
CLIENTS = {Unit.LOAD: Client.LOAD, Unit.COMPUTE: Client.COMPUTE, Unit.STORE: Client.STORE}


@pytest.fixture(params=[(seed, memory) for seed in range(8) for memory in MEMORIES], ids=str)
def run(request) -> tuple[Timing, MemoryParameters]:
    seed, memory = request.param
    return simulate(random_decoded(seed), memory, log=True), memory


def beats_of(program: DecodedStream) -> dict[int, int]:
    """Return the beats in which the rows of each instruction stand."""
    width, moved = program.config.bus_bytes, {}
    for form in forms_in_dram():
        rows = dram_rows(program, form)
        for owner, begin, end in rows.listed():
            beats = (end - 1) // width - begin // width + 1
            for place, count in zip(rows.index[owner].tolist(), beats.tolist(), strict=True):
                moved[place] = moved.get(place, 0) + count
    return moved


def test_each_instruction_moves_the_beats_in_which_its_rows_stand(run):
    timing, _ = run
    bursts, config = timing.log.bursts, timing.program.config
    transfers = bursts[bursts["client"] != Client.FETCH]
    moved = np.bincount(transfers["instruction"], transfers["beats"], len(timing.program)).astype(int)
    assert {index: beats for index, beats in enumerate(moved.tolist()) if beats} == beats_of(timing.program)
    assert (bursts["beats"] >= 1).all()
    assert (bursts["beats"] <= config.burst_beats).all()
    clients = [CLIENTS[Unit(int(timing.program.unit[index]))] for index in transfers["instruction"].tolist()]
    assert transfers["client"].tolist() == clients
    assert (bursts["instruction"][bursts["client"] == Client.FETCH] == -1).all()


def test_bursts_follow_each_other_at_the_pace_of_memory(run):
    timing, memory = run
    bursts, pace = timing.log.bursts, memory.cycles_per_beat
    assert (bursts["taken"] < bursts["accepted"]).all()
    assert (np.diff(bursts["accepted"]) > 0).all()
    assert (bursts["last"] - bursts["first"] >= (bursts["beats"] - 1) * pace).all()
    assert (bursts["first"][1:] - bursts["last"][:-1] >= pace).all()
    writes = bursts["client"] == Client.STORE
    least = np.where(writes, bursts["accepted"] + 1, bursts["accepted"] + memory.latency)
    assert (bursts["first"] >= least).all()
    room = bursts["accepted"][memory.depth :] > bursts["last"][: -memory.depth]
    assert room.all()
    assert bursts["beats"].sum() == sum(
        value for name, value in timing.counters.items() if name.endswith("_BEATS")
    )


def test_instructions_start_before_their_first_burst_and_retire_behind_their_last(run):
    timing, _ = run
    bursts = timing.log.bursts[timing.log.bursts["client"] != Client.FETCH]
    assert (bursts["taken"] > timing.started[bursts["instruction"]]).all()
    assert (bursts["last"] < timing.retired[bursts["instruction"]]).all()
