"""The text trace: one line per event, in order of time."""

import pytest

from tests.sim.timing.test_simulate import decoded, random_decoded
from vdla.hw.spec import isa
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.timing.simulate import simulate
from vdla.sim.trace.text import lines

GOLDEN = """\
         1  load     waits           -  waits: instruction, 8 cycles
         1  compute  waits           -  waits: instruction, 10 cycles
         1  store    waits           -  waits: instruction, 10 cycles
         2  memory   asked           -  fetch, 4 beats
         3  memory   accepts         -  fetch, 4 beats
         6  memory   first           -  fetch, 4 beats
         8  dispatch to              0  load
         9  memory   last            -  fetch, 4 beats
         9  load     starts          0  LOAD(push_next=1, memory_type=INP, y_size=1, x_size=1)
        10  memory   asked           0  load, 1 beats
        10  dispatch to              1  compute
        10  load     waits           -  waits: memory, 4 cycles
        11  memory   accepts         0  load, 1 beats
        11  compute  waits           1  waits for a token load->compute, 4 cycles
        14  memory   first           0  load, 1 beats
        14  memory   last            0  load, 1 beats
        14  load     retires         0  pushes load->compute (1 held)
        15  compute  starts          1  FINISH(pop_prev=1)  pops load->compute (0 held)
        23  compute  retires         1
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
