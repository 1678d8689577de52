"""A lower bound for the cycles of a task, whatever is chosen for it."""

import numpy as np

from vdla.hw.spec.footprint import forms_in_dram
from vdla.hw.spec.target import Target
from vdla.runtime.stream.builder import UOP_TENSOR, Stream
from vdla.sim.decoded import decode_stream
from vdla.sim.events import events_of
from vdla.sim.rows import dram_rows

APART = 1 << 40  # bytes from one tensor to the next, so that rows of several are told apart


def lower_bound(stream: Stream, target: Target) -> int:
    """Return the cycles below which no choice for a task gets.

    The array multiplies so many numbers in a cycle, and the bus moves so many bytes: each byte of the task's
    tensors at least once. What depends on the choice, as instructions and micro-ops do, is left out.

    Args:
        stream: of the task alone, for any choice.
    """
    program = decode_stream(stream.relocated(dict.fromkeys(stream.tensors, 0)), stream.config)
    steps = -(-int(events_of(program).products.sum()) // stream.config.macs_per_cycle)
    own = [positions for name, positions in stream.tensors.items() if name != UOP_TENSOR]
    beginnings = np.full(len(program), -1)
    for number, positions in enumerate(own):
        beginnings[positions] = number * APART
    begins, ends = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for form in forms_in_dram():
        rows = dram_rows(program, form)
        for places, begin, end in rows.merged().listed():
            first = beginnings[rows.index[places]]
            begins.append((first + begin)[first >= 0])
            ends.append((first + end)[first >= 0])
    moved = bytes_of(np.concatenate(begins), np.concatenate(ends))
    return max(steps, int(np.ceil(moved / target.bytes_per_cycle)), 1)


def bytes_of(begins: np.ndarray, ends: np.ndarray) -> int:
    """Return how many bytes lie in some intervals: int64[n] begins and ends, in any order."""
    order = np.argsort(begins, kind="stable")
    begins, reached = begins[order], np.maximum.accumulate(ends[order])
    before = np.concatenate([begins[:1], reached[:-1]])
    return int(np.maximum(reached - np.maximum(begins, before), 0).sum())
