"""Choosing tiles with the cycle simulator: the estimate picks a few, exact cycles decide between them.

Timing does not depend on data, so none is needed, and a layer is judged in milliseconds.
"""

from functools import lru_cache

from vdla.compiler.codegen.schedules import Tiles, ranked_tiles, schedule_conv2d
from vdla.compiler.codegen.stream import compile_stream
from vdla.compiler.te.operators import Convolution, conv2d
from vdla.hw.spec.config import AcceleratorConfig
from vdla.runtime.builder import Stream
from vdla.sim.program import decode_program
from vdla.sim.timing.simulate import simulate

CANDIDATES = 64
ELSEWHERE = 1 << 24  # where tensors stand while a stream is judged; its cycles hardly depend on that


@lru_cache(maxsize=1024)
def best_tiles(size: Convolution, config: AcceleratorConfig, threads: int, candidates: int = CANDIDATES) -> Tiles:
    """Return the tiles of fewest simulated cycles among the `candidates` that are estimated best.

    Raises:
        IrError: no tiles fit.
    """
    return min(ranked_tiles(size, config, threads)[:candidates], key=lambda tiles: simulated_cycles(tiles, size, config, threads))


def simulated_cycles(tiles: Tiles, size: Convolution, config: AcceleratorConfig, threads: int) -> int:
    """Return the cycles of a convolution with these tiles on the reference memory."""
    schedule = schedule_conv2d(conv2d(size, config, shift=1), size, config, shift=1, threads=threads, tiles=tiles)
    return cycles_of(compile_stream(schedule.lower(), config))


def cycles_of(stream: Stream) -> int:
    """Return the cycles of a stream whose tensors stand on boundaries of bursts."""
    words = stream.relocated(dict.fromkeys(stream.tensors, ELSEWHERE))
    return simulate(decode_program(words, stream.config)).cycles
