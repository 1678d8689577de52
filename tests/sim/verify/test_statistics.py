"""The verifier follows which statistics of rows a stream has gathered, and what a NORMALISE reads."""

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.sim.helpers import ACC, CONFIG, OUT, TABLE, load, stream_of
from vdla.hw.spec import isa
from vdla.hw.spec.assembly import format_instruction
from vdla.hw.spec.vocabulary import Extension, Statistic
from vdla.sim.decoded import decode_stream
from vdla.sim.verify.touch import EMPTY, UNGATHERED
from vdla.sim.verify.verifier import VerificationError, findings, verify

EVERYTHING = CONFIG.with_changes(extensions=tuple(Extension), res_buffer_bytes=64)
IMAGE = np.zeros(1 << 14, np.uint8)


def normalise(statistic: Statistic, **fields) -> isa.Normalise:
    """Return a NORMALISE of two rows, which gathers."""
    return isa.Normalise(
        **{"memory_type": OUT, "sram_base": 8, "y_size": 1, "x_size": 2, "statistic": statistic, **fields}
    )


UNSUMMED = normalise(Statistic.MOMENTS)
GATHER_ALL = tuple(normalise(statistic, anew=1) for statistic in Statistic)
LOADED = load(ACC, x_size=16, push_next=1), load(TABLE, x_size=128, push_next=1)
UNGATHERED_STATISTICS = {
    "a maximum that joins nothing": (
        (normalise(Statistic.GREATEST),),
        [(0, Statistic.GREATEST, row) for row in range(2)],
    ),
    "powers without a maximum": (
        (normalise(Statistic.POWERS, anew=1),),
        [(0, Statistic.GREATEST, row) for row in range(2)],
    ),
    "powers that join nothing": (
        (GATHER_ALL[0], normalise(Statistic.POWERS)),
        [(1, Statistic.POWERS, row) for row in range(2)],
    ),
    "outputs without their sum": (
        (GATHER_ALL[0], normalise(Statistic.POWERS, normal=1)),
        [(1, Statistic.POWERS, row) for row in range(2)],
    ),
    "outputs without moments": (
        (GATHER_ALL[0], normalise(Statistic.MOMENTS, normal=1, anew=1)),
        [(1, Statistic.MOMENTS, row) for row in range(2)],
    ),
    "one row more": (
        (normalise(Statistic.MOMENTS, anew=1), normalise(Statistic.MOMENTS, x_size=3)),
        [(1, Statistic.MOMENTS, 2)],
    ),
    "all that is needed": (
        (*GATHER_ALL, *(normalise(each, table=1, normal=1, dram_base=512) for each in Statistic)),
        [],
    ),
    "of nothing": ((normalise(Statistic.POWERS, x_size=0), normalise(Statistic.MOMENTS, y_size=0)), []),
}


@pytest.mark.parametrize("name", UNGATHERED_STATISTICS)
def test_statistics_that_were_not_gathered_are_refused(name):
    instructions, expected = UNGATHERED_STATISTICS[name]
    first = replace(instructions[0], pop_prev=1)
    wait = isa.Store(memory_type=OUT, pop_prev=1)
    program = decode_stream(
        stream_of((*LOADED, wait, first, *instructions[1:], isa.Finish()), EVERYTHING), EVERYTHING
    )
    begin = len(LOADED) + 1
    expected = [(begin + index, statistic, row) for index, statistic, row in expected]
    for filled in (False, True):
        reported = findings(program, IMAGE, filled=filled)
        assert {it.kind for it in reported} <= {UNGATHERED}
        assert [(it.index, it.memory, it.element) for it in reported] == expected


def test_a_message_names_the_statistic_and_the_row_and_says_what_to_do():
    program = decode_stream(
        stream_of((*LOADED, isa.Store(memory_type=OUT, pop_prev=1), UNSUMMED, isa.Finish()), EVERYTHING),
        EVERYTHING,
    )
    text = (
        f"instruction 3 ({format_instruction(UNSUMMED)}) uses the statistic MOMENTS of row 0, which no "
        "NORMALISE before it gathers; gather MOMENTS of all elements of the row first, beginning with `anew`"
    )
    with pytest.raises(VerificationError, match=re.escape(text)):
        verify(program, IMAGE)


def test_a_normalise_needs_its_table_its_parameters_and_its_accumulators():
    table = load(TABLE, x_size=64, push_next=1)  # half of a table of powers
    acc = load(ACC, x_size=4)
    item = normalise(Statistic.GREATEST, anew=1, table=1, parameters=2, pop_prev=1)
    program = decode_stream(stream_of((acc, table, item, isa.Finish()), EVERYTHING), EVERYTHING)
    reported = [(it.memory, it.element) for it in findings(program, IMAGE) if it.kind == EMPTY]
    assert sorted(reported) == [
        *((ACC, element) for element in range(4, 10)),
        *((TABLE, element) for element in range(64, 128)),
    ]
