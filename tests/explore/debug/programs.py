"""Recorded runs for tests of the debugger: hand-written, random, broken and VTA's programs."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from tests.programs.cases import CASES
from tests.programs.test_cases import program_of
from tests.sim.timing.test_simulate import decoded, random_decoded
from vdla.explore.debug.recording import Recording
from vdla.hw.spec import isa
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import AluOpcode, Extension, MemoryType
from vdla.runtime.vectors import load_vector, stream_address
from vdla.sim.decoded import DecodedStream, decode_stream
from vdla.sim.timing.simulate import _Simulation, simulate
from vdla.sim.trace.layers import TracedLayer

VECTORS = Path(__file__).parents[2] / "vectors" / "vta"
SLOW = MemoryParameters(200, 4, 3)
NARROW = TINY.with_changes(load_queue_depth=2, compute_queue_depth=2, store_queue_depth=2, token_depth=1)
STEPS = TINY.with_changes(batch=2, block_in=4, block_out=8, alu_lanes=2, requantise_lanes=2)
"""An element of OUT takes several reads of the store unit, of which the first takes a slot."""
WINDOWS = TINY.with_changes(
    block_in=8,
    block_out=8,
    alu_lanes=0,
    requantise_lanes=0,
    inp_buffer_bytes=1 << 13,
    extensions=(*TINY.extensions, Extension.DEPTHWISE, Extension.DEPTHWISE_ROWS),
)
INP, UOP = MemoryType.INP, MemoryType.UOP
ROW = {"memory_type": INP, "y_size": 1, "x_size": 8, "x_stride": 8}


@dataclass(frozen=True)
class Source:
    """A program, and how it runs."""

    program: DecodedStream
    memory: MemoryParameters = REFERENCE_MEMORY
    address: int = 0

    def simulation(self) -> _Simulation:
        """Return the cycle simulator at the begin of the run."""
        return _Simulation(self.program, self.memory, self.address, log=True)

    def recording(self, layers: tuple[TracedLayer, ...] = ()) -> Recording:
        """Return the recording of the run."""
        timing = simulate(self.program, self.memory, stream_address=self.address, log=True)
        return Recording("program", timing, self.memory, layers)


def _vector(name: str, memory: MemoryParameters = REFERENCE_MEMORY) -> Source:
    vector = load_vector(VECTORS / f"{name}.npz")
    return Source(decode_stream(vector.stream, vector.config), memory, stream_address(vector))


def _case(name: str, memory: MemoryParameters = REFERENCE_MEMORY) -> Source:
    program = program_of(CASES[name])
    stream = np.frombuffer(program.stream, np.uint8).reshape(-1, program.config.instruction_bytes)
    return Source(decode_stream(stream, program.config), memory)


def ahead(config=NARROW) -> DecodedStream:
    """Return LOADs that wait for room in a token counter of one place, while the compute unit's queue is
    full."""
    give, take = isa.Load(**ROW, push_next=1), isa.Gemm(pop_prev=1, uop_end=1, iter_out=9, iter_in=9)
    slow = isa.Load(memory_type=UOP, y_size=4, x_size=8, x_stride=8)
    return decoded(slow, give, give, give, take, take, take, isa.Finish(), config=config)


def _steps(config, pick: random.Random) -> Iterator[isa.Instruction]:
    """Yield an instruction of each kind that steps, with random loops, which may be empty."""
    loops = [
        {"uop_end": pick.randrange(4), "iter_out": pick.randrange(5), "iter_in": pick.randrange(1, 20)}
        for _ in range(4)
    ]
    yield isa.Gemm(**loops[0], dst_factor_in=1, reset=pick.randrange(2))
    for loop, immediate in zip(loops[1:], (0, 1), strict=False):
        yield isa.Alu(**loop, alu_opcode=pick.choice(list(AluOpcode)), use_imm=immediate, imm=3)
    if config.has(Extension.DEPTHWISE):
        yield isa.Depthwise(**loops[3], stride_2=pick.randrange(2), wide=pick.randrange(2), more_rows=1)


def stepping(config) -> DecodedStream:
    """Return steps of every kind, in random order, while the store unit reads accumulators. No tokens."""
    pick = random.Random(2)
    instructions = [isa.Load(memory_type=UOP, dram_base=1 << 14, y_size=1, x_size=8)]
    for _ in range(12):
        size = {"y_size": pick.randrange(1, 4), "x_size": pick.randrange(1, 25), "x_stride": 25}
        store = isa.Store(memory_type=MemoryType.OUT, **size, parameters=pick.randrange(2))
        steps = [store, *_steps(config, pick)]
        instructions += pick.sample(steps, len(steps))
    return decoded(*instructions, isa.Finish(), config=config)


STEPPING = {
    f"{name}, {ports} port{'s' * (ports > 1)}": config.with_changes(acc_ports=ports)
    for name, config in (("steps", STEPS), ("windows", WINDOWS))
    for ports in (1, 2)
}
"""Configurations of the programs of steps."""
MAKERS = {
    "finish alone": lambda: _case("finish alone"),
    "load strided": lambda: _case("load strided", SLOW),
    "gemm": lambda: _vector("gemm_vt2_d"),
    "conv3x3": lambda: _vector("conv3x3_d"),
    "conv1x1 slow": lambda: _vector("conv1x1_bt2", SLOW),
    "fuzz": lambda: _vector("fuzz1_d"),
    "no room": lambda: Source(ahead()),
    **{f"random {seed}": lambda seed=seed: Source(random_decoded(seed)) for seed in range(6)},
    "random 6 slow": lambda: Source(random_decoded(6), SLOW),
    "random 7 quick": lambda: Source(random_decoded(7), MemoryParameters(1, 1)),
    **{name: lambda config=config: Source(stepping(config)) for name, config in STEPPING.items()},
}
STUCK = {
    "token missing": lambda: Source(decoded(isa.Load(**ROW), isa.Gemm(pop_prev=1), isa.Finish())),
    "cycle of waits": lambda: Source(
        decoded(isa.Load(**ROW, pop_next=1, push_next=1), isa.Gemm(pop_prev=1, push_prev=1), isa.Finish())
    ),
    "queue full": lambda: Source(
        decoded(*[isa.Gemm(pop_prev=1)] * 4, isa.Load(**ROW, push_next=1), isa.Finish(), config=NARROW)
    ),
    "no room ever": lambda: Source(decoded(*[isa.Load(**ROW, push_next=1)] * 3, isa.Finish(), config=NARROW)),
    "no finish": lambda: Source(decoded(isa.Load(**ROW), isa.Gemm())),
    "invalid": lambda: Source(_invalid()),
}
ENDING, STOPPED = tuple(MAKERS), tuple(STUCK)


def _invalid() -> DecodedStream:
    good = decoded(isa.Load(**ROW), isa.Finish())
    words = np.ascontiguousarray(good.words).view(np.uint8).reshape(2, -1).copy()
    words[1, 0] |= 7
    return decode_stream(words, good.config)


@cache
def source(name: str) -> Source:
    """Return a program by its name."""
    return (MAKERS | STUCK)[name]()


@cache
def recording(name: str) -> Recording:
    """Return the recording of a program's run."""
    return source(name).recording()
