"""Streams of launches, with weights prefetched if that saves cycles.

The cycle simulator runs the stream as it was recorded. Its cycles decide which LOADs of weights move
(`vdla.runtime.stream.prefetch`). It then runs the stream that results, and the faster stream is used.
"""

import numpy as np

from vdla.compiler.codegen.choose import TENSOR_ADDRESS
from vdla.hw.spec.memory import MemoryParameters
from vdla.runtime.stream.builder import Stream, StreamBuilder
from vdla.runtime.stream.prefetch import Schedule, prefetch
from vdla.sim.decoded import decode_stream
from vdla.sim.timing.result import Timing


def with_prefetch(builder: StreamBuilder, memory: MemoryParameters) -> Stream:
    """Return the finished stream of what was recorded, on `memory` never slower than as it was recorded."""
    stream, numbers = builder.numbered()
    timing = _timing(stream, memory, log=True)
    moved = prefetch(builder, _schedule(timing, numbers, memory))
    if moved is None:
        return stream
    other = moved.finish()
    return other if _timing(other, memory).cycles < timing.cycles else stream


def _timing(stream: Stream, memory: MemoryParameters, *, log: bool = False) -> Timing:
    from vdla.sim.timing.simulate import simulate  # imports numba, which takes long

    words = stream.relocated(dict.fromkeys(stream.tensors, TENSOR_ADDRESS))
    return simulate(decode_stream(words, stream.config), memory, log=log)


def _schedule(timing: Timing, numbers: np.ndarray, memory: MemoryParameters) -> Schedule:
    """Return the cycles of recorded instructions; `numbers`: those of the instructions that ran."""
    recorded, bursts = numbers >= 0, timing.logged.bursts
    started, retired, requested = np.zeros((3, int(numbers.max()) + 1), np.int64)
    started[numbers[recorded]], retired[numbers[recorded]] = (
        timing.started[recorded],
        timing.retired[recorded],
    )
    of_transfers = bursts[bursts["instruction"] >= 0]
    owners = numbers[of_transfers["instruction"]]
    np.maximum.at(requested, owners[owners >= 0], of_transfers["taken"][owners >= 0] + 1)
    ends = bursts["last"] + memory.cycles_per_beat
    return Schedule(
        started, retired, requested, bursts["first"].tolist(), ends.tolist(), memory.cycles_per_beat
    )
