"""Pictures of each kind, artist by artist, as they were when somebody last looked at them.

Who changes how pictures look, looks at them (`scripts/make_pictures.py`) and runs `make recorded`, which
writes `drawn.txt`.
"""

import difflib
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from tests.sim.plots.description import described
from vdla.hw.spec import codec, isa
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.presets import DEFAULT, TINY
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import AluOpcode, MemoryType
from vdla.sim.decoded import decode_stream
from vdla.sim.plots.roofline import Point, roofline
from vdla.sim.plots.timeline import timeline
from vdla.sim.plots.utilisation import utilisation
from vdla.sim.timing.result import Timing
from vdla.sim.timing.simulate import simulate
from vdla.sim.trace.layers import TracedLayer

FILE = Path(__file__).with_name("drawn.txt")


def run(rows: int) -> Timing:
    """Return a run in which every unit works and waits, for memory, for tokens and for instructions."""
    instructions = (
        isa.Load(memory_type=MemoryType.INP, y_size=rows, x_size=3, x_stride=4, push_next=1),
        isa.Load(memory_type=MemoryType.UOP, y_size=1, x_size=2),
        isa.Gemm(uop_end=2, iter_out=rows, iter_in=3, pop_prev=1, reset=1),
        isa.Gemm(uop_end=2, iter_out=rows, iter_in=3),
        isa.Alu(uop_end=1, iter_out=rows, iter_in=2, alu_opcode=AluOpcode.ADD, use_imm=1, push_next=1),
        isa.Store(memory_type=MemoryType.OUT, y_size=rows, x_size=2, x_stride=2, pop_prev=1, push_prev=1),
        isa.Finish(pop_next=1),
    )
    stream = np.frombuffer(codec.to_bytes(instructions, TINY), np.uint8).reshape(-1, TINY.instruction_bytes)
    return simulate(decode_stream(stream, TINY), MemoryParameters(latency=9, depth=4), log=True)


def points(slower: float) -> list[Point]:
    """Return runs near each other, below the roof's slope and below its flat."""
    return [
        Point(f"run {number}", 40_000 + 500 * number, bytes_, int(cycles * slower))
        for number, (bytes_, cycles) in enumerate([(9000, 3000), (9010, 2990), (600, 300), (80_000, 25_000)])
    ]


def crowd() -> list[Point]:
    """Return more runs than the page is high for, in pairs of one place, with long names."""
    return [
        Point(f"a run with a rather long name {number}", 900_000, 20_000, 9_000 + number // 2 * 300)
        for number in range(22)
    ]


def figures() -> dict[str, Figure]:
    """Return a picture of each kind by its title."""
    long = run(9)
    layers = (
        TracedLayer("first", "Int8Conv", 0, 150, np.arange(4)),
        TracedLayer("second", "Int8Add", 150, long.cycles, np.arange(4, 7)),
    )
    target = Target(DEFAULT, MemoryParameters(cycles_per_beat=2))
    return {
        "roofline of two series": roofline({"slow": points(1.2), "fast": points(1)}, target),
        "roofline of a run": roofline({"runs": points(1)[2:3]}, target),
        "roofline of many runs": roofline({"runs": crowd()}, target),
        "utilisation of two runs": utilisation({"short": run(2), "long": long}),
        "timeline": timeline(long),
        "timeline of layers": timeline(long, layers),
    }


def text_of(title: str, figure: Figure) -> str:
    return "\n".join([f"# {title}", *described(figure)]) + "\n"


@pytest.mark.parametrize("title", figures())
def test_a_picture_is_drawn_as_it_was_when_last_looked_at(title):
    before = {text.partition("\n")[0]: text for text in FILE.read_text().split("\n\n")}
    figure_text = text_of(title, figures()[title])
    differences = difflib.unified_diff(
        before[f"# {title}"].splitlines(), figure_text.splitlines(), n=0, lineterm=""
    )
    assert not list(differences), "\n".join(differences)


def test_no_picture_is_written_down_that_is_not_drawn():
    titles = [text.partition("\n")[0] for text in FILE.read_text().split("\n\n")]
    assert titles == [f"# {title}" for title in figures()]


if __name__ == "__main__":
    FILE.write_text("\n".join(text_of(title, figure) for title, figure in figures().items()))
