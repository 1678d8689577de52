"""Sizes and delays inside the hardware are as the page on the microarchitecture states."""

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from vdla.hw.spec import timing
from vdla.hw.spec.timing import Client
from vdla.hw.spec.vocabulary import AluOpcode, Extension

PAGE = " ".join((Path(__file__).parents[3] / "docs" / "microarchitecture.md").read_text().split())
NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
STAGES = range(1, timing.MOST_GEMM_STAGES + 1)

STATED = {
    r"instruction queue is (\w+) bursts deep": timing.BURSTS_FETCHED_AHEAD,
    r"Read beats pass a queue of (\w+) beats": timing.ARRIVED_BEATS,
    r"up to (\w+) more started LOADs wait": timing.LOADS_IN_PROGRESS - 1,
    r"The beat queue holds (\w+) bursts": timing.BURSTS_STORED_AHEAD,
    r"the request queue (\w+) requests": timing.STORE_REQUESTS_AHEAD,
    r"must therefore be held for (\w+) cycles": timing.COUNTER_READ_CYCLES,
    r"nothing moves for (\w+) consecutive cycles": timing.QUIET_CYCLES,
    r"meets its accumulator in t \+ (\w+) \+ gemm_stages": timing.OPERAND_STAGE,
    r"Results of the last (\w+) slots are forwarded": timing.FORWARDED,
    r"A beat enters its queue (\w+) cycles after its last read": timing.STORE_READ_STAGES,
    r"With it, (\w+) more stages follow": timing.REQUANTISE_STAGES,
    r"With the extension TABLE (\w+) more stages follow": timing.TABLE_STAGES,
    r"With the extension NORMALISE (\w+) more stage precedes the table": timing.DISTANCE_STAGES,
    r"and (\w+) follow it, before the stages of RESIDUAL": timing.NORMALISE_STAGES,
    r"The last (\w+) sets of parameters of normalisation": timing.NORMAL_SETS,
    r"With the extension RESIDUAL (\w+) more stages follow": timing.RESIDUAL_STAGES,
}


@pytest.mark.parametrize("sentence", STATED)
def test_a_size_is_the_one_on_the_page(sentence):
    (word,) = re.findall(sentence, PAGE)
    assert (NUMBERS.index(word) + 1 if word in NUMBERS else int(word)) == STATED[sentence]


def test_clients_of_the_dma_come_in_the_order_of_the_page():
    (order,) = re.findall(r"clients with fixed priority, highest first: (.*?)\.", PAGE)
    names = {"fetch": "FETCH", "compute loads": "COMPUTE", "stores": "STORE", "loads": "LOAD"}
    assert [client.name for client in sorted(Client)] == [names[name] for name in order.split(", ")]
    assert [client.value for client in sorted(Client)] == [0, 1, 2, 3]
    assert [client.reads for client in sorted(Client)] == [True, True, False, True]


@pytest.mark.parametrize("stages", STAGES)
def test_a_slot_passes_the_stages_of_the_page(stages):
    """Its accumulator's address in t + 3 + gemm_stages, the accumulator in t + 5 + gemm_stages, its result in
    t + 6 + gemm_stages; without a shadow, a beat enters its queue 6 + gemm_stages after its last read."""
    assert timing.given_stage(stages) == 3 + stages
    assert timing.execute_stage(stages) == 5 + stages
    assert timing.retire_stage(stages) == 6 + stages
    assert [timing.store_read_stages(ports, stages) for ports in (1, 2)] == [6 + stages, 2]


@pytest.mark.parametrize("read_stages", [2, 9])
def test_a_beat_passes_the_stages_of_the_extensions_that_there_are(read_stages):
    added = {Extension.REQUANTISE: 9, Extension.TABLE: 3, Extension.RESIDUAL: 8, Extension.NORMALISE: 1 + 7}
    for present in product((False, True), repeat=len(Extension)):
        extensions = [extension for extension, here in zip(Extension, present, strict=True) if here]
        expected = sum(added.get(extension, 0) for extension in extensions)
        assert timing.store_stages(extensions, read_stages) == read_stages + expected
        assert timing.store_stages(extensions) == 2 + expected


@pytest.mark.parametrize(
    ("opcode", "delays"),
    [
        (AluOpcode.MIN, [0, 0]),
        (AluOpcode.MAX, [0, 0]),
        (AluOpcode.ADD, [0, 0]),
        (AluOpcode.SHR, [0, 1]),
        (AluOpcode.MUL, [1, 2]),
    ],
)
def test_an_alu_step_takes_a_slot_for_each_piece_and_those_of_its_delay(opcode, delays):
    assert [timing.alu_delay(opcode, stages) for stages in (1, 2)] == delays
    for stages, pieces, sources in product((1, 2), (1, 4), (0, 1)):
        slots = timing.alu_slots(pieces, opcode, stages, sources)
        assert slots == pieces + sources + delays[stages - 1]
    assert timing.alu_slots(4, opcode, 1) == 4 + delays[0]


def test_the_second_accumulator_takes_a_slot_where_there_is_one_port():
    assert [[timing.source_slots(ports, imm) for imm in (0, 1)] for ports in (1, 2)] == [[1, 0], [0, 0]]
    assert timing.source_slots(1, np.array([0, 1, 0])).tolist() == [1, 0, 1]


@pytest.mark.parametrize("stride", [1, 2])
def test_a_row_of_depthwise_takes_a_slot_for_each_input_that_its_windows_reach(stride):
    counts = np.arange(1, 20)
    reached = [len(range(stride * (sums - 1) + 3)) for sums in counts]
    assert timing.depthwise_slots(counts, stride - 1).tolist() == reached
    assert [timing.depthwise_slots(int(sums), stride - 1) for sums in counts] == reached
