"""Choice: pure functions from a space to one of its choices.

Timing does not depend on data, so the cycle simulator evaluates a choice without any.
"""

from collections.abc import Callable

from vdla.compiler.codegen.after import RESIDUAL, SUM, After
from vdla.compiler.codegen.estimate import ranked_tiles, slots_of
from vdla.compiler.codegen.lowering import calls_of
from vdla.compiler.codegen.space import Family, Space
from vdla.compiler.codegen.stream import emit_calls
from vdla.compiler.codegen.tiles import Tiles, Work
from vdla.compiler.operands.address_map import Operand
from vdla.compiler.tasks.base import Choice, Task
from vdla.compiler.tasks.convolution import ConvolutionTask, TiledTask
from vdla.compiler.te.operators.narrowing import Scale, Shift
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.hw.spec.target import Target
from vdla.runtime.stream.builder import Stream, StreamBuilder

CANDIDATES = 2  # that are simulated
MORE_CANDIDATES = 4  # with more virtual threads, where these may help
# A candidate whose estimate exceeds the best by more is not simulated. No convolution of ResNet-18 and
# MobileNet ran fastest with one.
NEAR = 1.05
WAITING = 1.015  # cycles of each slot, from which on more virtual threads may help
ELSEWHERE = 1 << 24  # where tensors stand while a stream is judged; its cycles hardly depend on that
Chooser = Callable[[Space], Choice]


def by_estimate(space: Space) -> Choice:
    """Return the choice with the fewest estimated cycles."""
    return _candidates(space.usual, 1)[0]


def by_simulator(space: Space, candidates: int = CANDIDATES) -> Choice:
    """Return the choice with the fewest simulated cycles among the `candidates` with the best estimates.

    Where the multipliers wait, some with more virtual threads are among them: their estimates are close, and
    how stores meet loads in memory's queue decides between them.
    """
    found = _candidates(space.usual, candidates)
    if len(found) == 1 and space.more is None:
        return found[0]
    cycles = {choice: simulated_cycles(space.task, choice, space.target) for choice in found}
    best = min(found, key=cycles.__getitem__)
    if space.more is not None and _waits(space, best, cycles[best]):
        for other in _candidates(space.more, MORE_CANDIDATES):
            cycles[other] = simulated_cycles(space.task, other, space.target)
    return min(cycles, key=cycles.__getitem__)


def _waits(space: Space, choice: Choice, cycles: int) -> bool:
    """Whether a choice takes more cycles than slots."""
    assert space.usual.work is not None, "what has more threads has tiles"
    assert choice.tiles is not None, "what has tiles to choose has some"
    return cycles > WAITING * slots_of(space.usual.work, choice.tiles)


def _candidates(family: Family, most: int) -> list[Choice]:
    if family.work is None:
        return [family.choice(0)]
    return [
        Choice(family.threads, tiles) for tiles in ranked_tiles(family.work, most, distinct=True, within=NEAR)
    ]


def simulated_cycles(task: Task, choice: Choice, target: Target) -> int:
    """Return the cycles of a task alone on a target."""
    return cycles_of(stream_of(task, choice, target.config), target.memory)


def stream_of(task: Task, choice: Choice, config: AcceleratorConfig) -> Stream:
    """Return the stream of a task alone, with the residuals that its stores add.

    Raises:
        IrError: the choice cannot be lowered.
    """
    builder = StreamBuilder(config)
    adds = isinstance(task, TiledTask) and task.adds_residual
    emit_calls(
        calls_of(task, choice, config),
        builder,
        {
            **{name: Operand(name) for name in (RESIDUAL, SUM)},
            **{name: Operand(name, address_map=each) for name, each in task.address_maps(config).items()},
        },
        After(adds=adds),
    )
    return builder.finish()


def best_tiles(work: Work, candidates: int = CANDIDATES) -> Tiles:
    """Return the tiles with the fewest simulated cycles among the `candidates` with the best estimates.

    Raises:
        IrError: no tiles fit.
    """
    narrowing = Scale() if work.scales else Shift(1)
    task = ConvolutionTask(work.size, narrowing, alike=work.alike, slides=work.slides)
    target = Target(work.config, work.memory)
    return min(
        ranked_tiles(work, candidates, distinct=True),
        key=lambda tiles: simulated_cycles(task, Choice(work.threads, tiles), target),
    )


def cycles_of(stream: Stream, memory: MemoryParameters = REFERENCE_MEMORY) -> int:
    """Return the cycles of a stream whose tensors are aligned to bursts."""
    from vdla.sim.decoded import decode_stream
    from vdla.sim.timing.simulate import (
        simulate,
    )  # numba: a second that a compilation of recorded choices need not spend

    words = stream.relocated(dict.fromkeys(stream.tensors, ELSEWHERE))
    return simulate(decode_stream(words, stream.config), memory).cycles
