"""Choosing tiles with the cycle simulator: the estimate picks a few, exact cycles decide between them.

Timing does not depend on data, so none is needed, and a layer is judged in milliseconds.
"""

from functools import lru_cache

from vdla.compiler.codegen.schedules import schedule_conv2d
from vdla.compiler.codegen.stream import compile_stream
from vdla.compiler.codegen.tiles import Tiles, Work, ranked_tiles
from vdla.compiler.te.operators.convolution import conv2d
from vdla.compiler.te.operators.narrowing import Scale, Shift
from vdla.runtime.builder import Stream
from vdla.sim.program import decode_program
from vdla.sim.timing.simulate import simulate

CANDIDATES = 64
ELSEWHERE = 1 << 24  # where tensors stand while a stream is judged; its cycles hardly depend on that


@lru_cache(maxsize=1024)
def best_tiles(work: Work, candidates: int = CANDIDATES) -> Tiles:
    """Return the tiles of fewest simulated cycles among the `candidates` that are estimated best.

    Raises:
        IrError: no tiles fit.
    """
    return min(ranked_tiles(work)[:candidates], key=lambda tiles: simulated_cycles(tiles, work))


def simulated_cycles(tiles: Tiles, work: Work) -> int:
    """Return the cycles of a convolution with these tiles on the reference memory."""
    operator = conv2d(work.size, work.config, Scale() if work.scales else Shift(1), alike=work.alike)
    return cycles_of(compile_stream(schedule_conv2d(operator, work.size, work.config, threads=work.threads, tiles=tiles).lower(), work.config))


def cycles_of(stream: Stream) -> int:
    """Return the cycles of a stream whose tensors stand on boundaries of bursts."""
    words = stream.relocated(dict.fromkeys(stream.tensors, ELSEWHERE))
    return simulate(decode_program(words, stream.config)).cycles
