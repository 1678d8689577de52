"""Deadlock diagnosis: what each unit waits for, what should supply it, and the chain of waits."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from vdla.hw.spec.errors import DeadlockError
from vdla.hw.spec.units import TOKEN_EDGES, TokenEdge, Unit
from vdla.sim.decoded import DecodedStream

DISPATCH = "dispatch"


@dataclass(frozen=True, slots=True)
class Standstill:
    """A run in which nothing moves.

    Attributes:
        program: what ran.
        tokens: held, by edge of TOKEN_EDGES.
        dispatched: instructions that dispatch has passed on.
        left: int64[...] by unit: the instructions that have not executed, up to FINISH, in order.
    """

    program: DecodedStream
    tokens: tuple[int, ...]
    dispatched: int
    left: tuple[np.ndarray, ...]

    def head(self, unit: Unit) -> int | None:
        """Return the instruction at the head of the queue of `unit`; None where that is empty."""
        left = self.left[unit]
        return int(left[0]) if len(left) and left[0] < self.dispatched else None

    @property
    def stuck_in_dispatch(self) -> int | None:
        """The instruction for which dispatch finds no place; None where all are dispatched."""
        return self.dispatched if self.dispatched < self.program.dispatched else None


@dataclass(frozen=True, slots=True)
class Lack:
    """What an instruction waits for: a token of `edge`, or room for the token that it pushes onto it.

    Attributes:
        instruction: that waits.
        supplier: the first instruction not yet executed that would push the token, or pop a token and so make
            room; None: there is none.
    """

    edge: TokenEdge
    token: bool
    instruction: int
    supplier: int | None

    @property
    def supplying_unit(self) -> Unit:
        """The unit that executes the supplier."""
        return self.edge.producer if self.token else self.edge.consumer


def explain(state: Standstill) -> DeadlockError | None:
    """Return the error that explains the deadlock; None if every dispatched instruction has executed."""
    heads = {unit: head for unit in Unit if (head := state.head(unit)) is not None}
    if not heads:
        return None
    lacks = {unit: list(_lacks(state, head)) for unit, head in heads.items()}
    lines = [
        "deadlock: no unit can go on",
        *(_unit_line(state, unit, lacks) for unit in Unit),
        *_dispatch_lines(state),
        _chain(state, lacks),
    ]
    return DeadlockError("\n  ".join(lines), min(heads.values()))


def _lacks(state: Standstill, index: int) -> Iterator[Lack]:
    program = state.program
    for number, edge in enumerate(TOKEN_EDGES):
        if program.pops[index, number] and not state.tokens[number]:
            yield Lack(edge, True, index, _first(state.left[edge.producer], program.pushes[:, number]))
        if program.pushes[index, number] and state.tokens[number] >= program.config.token_depth:
            yield Lack(edge, False, index, _first(state.left[edge.consumer], program.pops[:, number]))


def _first(left: np.ndarray, flags: np.ndarray) -> int | None:
    """Return the first instruction of `left` that has the flag."""
    having = np.flatnonzero(flags[left])
    return int(left[having[0]]) if having.size else None


def _unit_line(state: Standstill, unit: Unit, lacks: dict[Unit, list[Lack]]) -> str:
    if unit not in lacks:
        return f"{unit.name.lower()}: its queue is empty"
    waits = " and ".join(_lack_text(state, lack) for lack in lacks[unit])
    return f"{unit.name.lower()}: {state.program.describe(lacks[unit][0].instruction)} waits for {waits}"


def _lack_text(state: Standstill, lack: Lack) -> str:
    number = TOKEN_EDGES.index(lack.edge)
    what = (
        f"a token {lack.edge}"
        if lack.token
        else f"room on {lack.edge}, which holds {state.tokens[number]} tokens"
    )
    return f"{what}{_supplier_text(state, lack)}"


def _supplier_text(state: Standstill, lack: Lack) -> str:
    """Return which instruction would supply what is missing, and why it does not."""
    supplies = "pushes one" if lack.token else "pops one"
    if lack.supplier is None:
        reasons = [f"no remaining instruction {supplies}", *_tally(state, lack), *_suspect(state, lack)]
        return f" ({'; '.join(reasons)})"
    where = f"instruction {lack.supplier} of the {lack.supplying_unit.name.lower()} unit {supplies}"
    if lack.supplier >= state.dispatched:
        return f" ({where}, but is not dispatched)"
    head = state.head(lack.supplying_unit)
    return (
        f" ({where}, but waits itself)"
        if head == lack.supplier
        else f" ({where}, but is queued behind instruction {head})"
    )


def _tally(state: Standstill, lack: Lack) -> Iterator[str]:
    """Yield how many tokens of the edge were pushed, and how many popped."""
    number = TOKEN_EDGES.index(lack.edge)
    popped = _executed(state, lack.edge.consumer, state.program.pops[:, number])
    pushed = popped + state.tokens[number]
    if pushed:
        yield (
            f"{pushed} pushed, number {pushed + 1} needed"
            if lack.token
            else f"{pushed} pushed, {popped} popped"
        )


def _executed(state: Standstill, unit: Unit, flags: np.ndarray) -> int:
    """Return how many executed instructions of `unit` have the flag."""
    return int(flags[: state.program.dispatched].sum() - flags[state.left[unit]].sum())


def _suspect(state: Standstill, lack: Lack) -> Iterator[str]:
    """Yield the likely culprit: the last instruction of the supplying unit before the waiting instruction."""
    number, unit = TOKEN_EDGES.index(lack.edge), lack.supplying_unit
    before = np.flatnonzero(state.program.unit[: lack.instruction] == unit)
    flags, supplies = (state.program.pushes, "pushes") if lack.token else (state.program.pops, "pops")
    if not before.size:
        yield f"the {unit.name.lower()} unit has no instruction before it"
    elif not flags[last := int(before[-1]), number]:
        yield (
            f"likely culprit: {state.program.describe(last)} is the last of the {unit.name.lower()} "
            f"unit before it and {supplies} none"
        )


def _dispatch_lines(state: Standstill) -> Iterator[str]:
    index = state.stuck_in_dispatch
    if index is not None:
        unit = Unit(state.program.unit[index])
        yield (
            f"dispatch: {state.program.describe(index)} waits for a place in the {unit.name.lower()} "
            f"queue, which holds {_queue_depth(state, unit)}"
        )


def _queue_depth(state: Standstill, unit: Unit) -> int:
    config = state.program.config
    depths = {
        Unit.LOAD: config.load_queue_depth,
        Unit.COMPUTE: config.compute_queue_depth,
        Unit.STORE: config.store_queue_depth,
    }
    return depths[unit]


def _chain(state: Standstill, lacks: dict[Unit, list[Lack]]) -> str:
    """Follow the waits from the first waiting instruction to a cycle, or to something never supplied."""
    path: list[Unit | str] = []
    place: Unit | str = min(lacks, key=lambda unit: lacks[unit][0].instruction)
    while place not in path:
        path.append(place)
        of_unit = lacks[place] if isinstance(place, Unit) else []
        never = next((lack for lack in of_unit if lack.supplier is None), None)
        if never is not None:
            return f"chain of waits: {_waits([*map(_name, path), _never_text(never)])}"
        place = _waits_for(state, of_unit)
    return f"cycle of waits: {_waits(list(map(_name, [*path[path.index(place) :], place])))}"


def _waits_for(state: Standstill, lacks: list[Lack]) -> Unit | str:
    """Return what a unit with `lacks` waits for: a unit or dispatch. Without lacks it waits for dispatch."""
    if not lacks:
        return Unit(state.program.unit[state.dispatched])
    lack = lacks[0]
    dispatched = lack.supplier is not None and lack.supplier < state.dispatched
    return lack.supplying_unit if dispatched else DISPATCH


def _never_text(lack: Lack) -> str:
    return (
        f"a token {lack.edge} that nothing pushes"
        if lack.token
        else f"room on {lack.edge} that nothing makes"
    )


def _name(place: Unit | str) -> str:
    return place if isinstance(place, str) else place.name.lower()


def _waits(names: list[str]) -> str:
    """Say that each waits for the next. Not by arrows: arrows of token edges point the other way."""
    return ", ".join(f"{name} waits for {following}" for name, following in pairwise(names))
