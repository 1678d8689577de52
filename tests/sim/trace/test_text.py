"""The text trace: one line per event, in order of time."""

import pytest

from tests.sim.timing.test_simulate import decoded, random_decoded
from vdla.hw.spec import isa
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.timing.simulate import simulate
from vdla.sim.trace.text import lines

GOLDEN = """\
         1  load     waits           -  waits: instruction, 10 cycles
         1  compute  waits           -  waits: instruction, 12 cycles
         1  store    waits           -  waits: instruction, 12 cycles
         3  memory   asked           -  fetch, 4 beats
         4  memory   accepts         -  fetch, 4 beats
         7  memory   first           -  fetch, 4 beats
        10  memory   last            -  fetch, 4 beats
        10  dispatch to              0  load
        11  load     starts          0  LOAD(push_next=1, memory_type=INP, y_size=1, x_size=1)
        12  dispatch to              1  compute
        12  load     waits           -  waits: memory, 6 cycles
        13  memory   asked           0  load, 1 beats
        13  compute  waits           1  waits for a token load->compute, 6 cycles
        14  memory   accepts         0  load, 1 beats
        17  memory   first           0  load, 1 beats
        17  memory   last            0  load, 1 beats
        18  load     retires         0  pushes load->compute (1 held)
        19  compute  starts          1  FINISH(pop_prev=1)  pops load->compute (0 held)
        29  compute  retires         1
"""


def test_a_short_program_reads_as_expected():
    load = isa.Load(memory_type=MemoryType.INP, y_size=1, x_size=1, push_next=1)
    text = list(lines(simulate(decoded(load, isa.Finish(pop_prev=1)), MemoryParameters(3, 4), log=True)))
    assert text == GOLDEN.splitlines()


@pytest.mark.parametrize("seed", range(4))
def test_lines_are_in_order_and_cover_every_instruction(seed):
    timing = simulate(random_decoded(seed), log=True)
    rows = [line.split(maxsplit=4) for line in lines(timing)]
    cycles = [int(row[0]) for row in rows]
    assert cycles == sorted(cycles)
    for what in ("starts", "retires"):
        assert sorted(int(row[3]) for row in rows if row[2] == what) == list(range(len(timing.program)))
