"""Simulated runs for several commands."""

from pathlib import Path

from vdla.hw.spec.memory import MemoryParameters
from vdla.runtime.vectors import load_vector, stream_address
from vdla.sim.decoded import decode_stream
from vdla.sim.interleave import interleave
from vdla.sim.overwrites import refuse_overwrites
from vdla.sim.timing.result import Timing
from vdla.sim.timing.simulate import simulate


def time_vector(path: Path, memory: MemoryParameters) -> Timing:
    """Simulate a vector's program, with a log. A run that the hardware would stop is returned, too.

    Raises:
        OverwriteError: the program would change itself.
    """
    vector = load_vector(path)
    program, address = decode_stream(vector.stream, vector.config), stream_address(vector)
    refuse_overwrites(program, address)
    return simulate(program, memory, stream_address=address, log=True)


def raise_fault(timing: Timing) -> None:
    """Raise the error that explains why the hardware stopped the run, if it did."""
    error = interleave(timing.program).error if timing.fault else None
    if error is not None:
        raise error
