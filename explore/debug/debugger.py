"""Stepping through a recorded run, forwards and backwards."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from vdla.explore.debug.breakpoints import Breakpoint, breakpoint_of
from vdla.explore.debug.chains import Chain, Chains
from vdla.explore.debug.contents import Contents, Held, Issue
from vdla.explore.debug.errors import RunError, errors_of
from vdla.explore.debug.events import EventKind
from vdla.explore.debug.execution import values_of
from vdla.explore.debug.launches import recordings_of
from vdla.explore.debug.recording import NONE, DebugError, Recording
from vdla.explore.debug.state import State, States
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.showing import short
from vdla.hw.spec.units import TOKEN_EDGES, Unit
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.module.plan import Plan
from vdla.runtime.session.report import Report
from vdla.runtime.session.session import Outcome
from vdla.sim.records import IntArray
from vdla.sim.timing.result import NEVER, Timing
from vdla.sim.trace.events import Token
from vdla.sim.trace.layers import TracedLayer


@dataclass(frozen=True, slots=True)
class InstructionView:
    """An instruction in a run.

    Attributes:
        text: its assembly.
        layer: the name of its layer; "" where it belongs to none.
        queued, started, retired: cycles; NEVER where that does not happen.
        taken: the tokens that it pops, with the instructions that push them.
        given: the tokens that it pushes, with the instructions that pop them; `consumer` is NONE where no
            instruction does.
        issue: the slots of the compute unit that it takes; None where it takes none, or never retires.
    """

    index: int
    unit: Unit
    text: str
    layer: str
    queued: int
    started: int
    retired: int
    taken: tuple[Token, ...]
    given: tuple[Token, ...]
    issue: Issue | None


class Debugger:
    """A recorded launch and a cycle of it.

    A step costs the same forwards and backwards: every state is looked up in the columns of the recording.

    >>> debugger = Debugger(Recording(name, simulate(program, log=True)))
    >>> debugger.next_instruction(Unit.COMPUTE)
    >>> debugger.state().units[Unit.COMPUTE].text
    >>> debugger.why(Unit.STORE).links

    Attributes:
        recording: the launch.
        cycle: the cycle that the debugger stands at, from 0 to the last cycle of the run.
        selected: the instruction that the last jump led to; NONE where it led to a cycle.
        breakpoints: at which `resume` stops.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.cycle = 0
        self.selected = NONE
        self.breakpoints: list[Breakpoint] = []
        self.states, self.chains, self.contents = States(recording), Chains(recording), Contents(recording)

    @property
    def timing(self) -> Timing:
        """The cycle simulator's records."""
        return self.recording.timing

    @cached_property
    def errors(self) -> tuple[RunError, ...]:
        """The errors of the run: a stop by the hardware, accesses that no token orders, wrong results."""
        return errors_of(self.contents)

    def values(self, memory: int, place: int) -> Iterator[tuple[int, np.ndarray]]:
        """Yield each instruction that writes an element of a scratchpad or a byte of DRAM, and its values.

        Args:
            memory: the scratchpad as a MemoryType, or `vdla.sim.verify.columns.DRAM`.

        Raises:
            DebugError: what DRAM held before the run is not known.
        """
        return values_of(self.contents, memory, place)

    def state(self) -> State:
        """Return the state at `cycle`."""
        return self.states.at(self.cycle)

    def held(self, memory: MemoryType) -> tuple[Held, ...]:
        """Return what lies in a scratchpad at `cycle`."""
        return self.contents.held(memory, self.cycle)

    def instruction(self, index: int) -> InstructionView:
        """Return an instruction of the run.

        Raises:
            DebugError: the stream has no such instruction.
        """
        self.recording.check_instruction(index)
        recording, timing = self.recording, self.timing
        columns = timing.dispatched, timing.started, timing.retired
        times = int(columns[0][index]), int(columns[1][index]), int(columns[2][index])
        unit, taken, given = Unit(int(recording.program.unit[index])), self._taken(index), self._given(index)
        texts = recording.texts[index], recording.layer_of[index]
        issue = self.contents.issue(index)
        return InstructionView(index, unit, *texts, *times, tuple(taken), tuple(given), issue)

    def _taken(self, index: int) -> Iterator[Token]:
        for number, (pushing, popping) in enumerate(self._users):
            place = int(np.searchsorted(popping, index))
            if place < len(popping) and popping[place] == index:
                yield Token(TOKEN_EDGES[number], _at(pushing, place), index)

    def _given(self, index: int) -> Iterator[Token]:
        for number, (pushing, popping) in enumerate(self._users):
            place = int(np.searchsorted(pushing, index))
            if place < len(pushing) and pushing[place] == index:
                yield Token(TOKEN_EDGES[number], index, _at(popping, place))

    @cached_property
    def _users(self) -> tuple[tuple[IntArray, IntArray], ...]:
        return tuple(self.recording.edge_users(edge) for edge in range(len(TOKEN_EDGES)))

    # Moving

    def step(self, cycles: int = 1) -> None:
        """Go on by some cycles, or back where `cycles` is negative; stop at the ends of the run."""
        self.goto(min(max(self.cycle + cycles, 0), self.timing.cycles))

    def goto(self, cycle: int) -> None:
        """Go to a cycle.

        Raises:
            DebugError: the run has no such cycle.
        """
        if not 0 <= cycle <= self.timing.cycles:
            raise DebugError(
                f"cycle {cycle} is outside the run, whose cycles are 0 to {self.timing.cycles}; choose one "
                "of these"
            )
        self.cycle, self.selected = cycle, NONE

    def goto_instruction(self, index: int) -> None:
        """Go to the cycle in which an instruction starts; to the end of the run where it never starts.

        Raises:
            DebugError: the stream has no such instruction.
        """
        self.recording.check_instruction(index)
        started = int(self.timing.started[index])
        self.goto(self.timing.cycles if started == NEVER else started)
        self.selected = index

    def next_instruction(self, unit: Unit | None = None, count: int = 1) -> bool:
        """Go to the start of the next instruction, of a unit or of any; back where `count` is negative.

        Instructions that start in the same cycle follow each other in the order of the stream.

        Returns:
            whether there was such an instruction; if not, the debugger stands where it stood.
        """
        order = self._starts
        if unit is not None:
            order = order[self.recording.program.unit[order] == unit]
        place = self._place(order, count > 0) + (count - 1 if count > 0 else count)
        if not 0 <= place < len(order):
            return False
        self.goto_instruction(int(order[place]))
        return True

    @cached_property
    def _starts(self) -> IntArray:
        """int64[...]: the instructions that start, in the order of their starts."""
        ran = np.flatnonzero(self.timing.started != NEVER)
        return ran[np.argsort(self.timing.started[ran], kind="stable")]

    def _place(self, order: IntArray, forwards: bool) -> int:
        """Return the place of the first instruction of `order` behind where the debugger stands; backwards,
        the place of the first that is not before."""
        started = self.timing.started[order]
        first, end = (int(np.searchsorted(started, self.cycle, side)) for side in ("left", "right"))
        if self.selected == NONE or self.timing.started[self.selected] != self.cycle:
            return end if forwards else first
        return first + int(np.searchsorted(order[first:end], self.selected, "right" if forwards else "left"))

    def next_layer(self, count: int = 1) -> bool:
        """Go to the begin of the next layer, or back where `count` is negative; return whether there is such
        a layer."""
        begins = [layer.begin for layer in self.recording.layers if layer.begin < layer.end]
        if count > 0:
            place = int(np.searchsorted(begins, self.cycle, "right")) + count - 1
        else:
            place = int(np.searchsorted(begins, self.cycle)) + count
        if not 0 <= place < len(begins):
            return False
        self.goto(begins[place])
        return True

    def layer(self, name: str) -> TracedLayer:
        """Return the layer of a name.

        Raises:
            DebugError: no layer has it.
        """
        layers = [layer for layer in self.recording.layers if layer.name == name]
        if layers:
            return layers[0]
        names = ", ".join(layer.name for layer in self.recording.layers)
        has = f"the layers are {short(names)}" if names else "this run has no layers"
        raise DebugError(f"no layer is called {short(name)}: {has}")

    def find(self, pattern: str, *, backwards: bool = False) -> bool:
        """Go to the start of the next instruction whose assembly, or whose layer, matches a regular
        expression; return whether there is such an instruction.

        Raises:
            DebugError: the pattern is no regular expression.
        """
        matching = np.zeros(len(self.recording), bool)
        matching[self.recording.matches(pattern)] = True
        order = self._starts[matching[self._starts]]
        place = self._place(order, not backwards) - backwards
        if not 0 <= place < len(order):
            return False
        self.goto_instruction(int(order[place]))
        return True

    def add_breakpoint(self, words: Sequence[str]) -> Breakpoint:
        """Add a breakpoint; see `vdla.explore.debug.breakpoints`.

        Raises:
            DebugError: the words do not describe a condition of this run.
        """
        added = breakpoint_of(self.states, self.contents, words)
        self.breakpoints.append(added)
        return added

    def resume(self, *, backwards: bool = False) -> Breakpoint | None:
        """Go on to the next cycle at which a breakpoint holds for the first time, or back to the latest; else
        to the end or the begin of the run. Return the breakpoint that stopped it."""
        nearest, stopped = (0 if backwards else self.timing.cycles), None
        for each in self.breakpoints:
            cycle = each.before(self.cycle) if backwards else each.after(self.cycle)
            if cycle is not None and (cycle > nearest if backwards else cycle < nearest):
                nearest, stopped = cycle, each
        self.goto(nearest)
        return stopped

    # Explaining

    def why(self, subject: Unit | int) -> Chain:
        """Return why an instruction starts when it does, from its start back to a root.

        Args:
            subject: an instruction, or a unit: the instruction that waits in it at `cycle`. If that
                instruction is in progress and waits for memory, the chain begins at its retirement.

        Raises:
            DebugError: the stream has no such instruction, or the unit does not wait.
        """
        if not isinstance(subject, Unit):
            self.recording.check_instruction(subject)
            return self.chains.chain(EventKind.STARTED, subject)
        view = self.states.at(self.cycle).units[subject]
        if view.waits and not view.queue and not view.working:
            return self._why_empty(subject)
        if view.waiting == NONE:
            raise DebugError(
                f"the {subject.name.lower()} unit does not wait in cycle {self.cycle} ({view.text}); go to a "
                "cycle in which it waits, or name an instruction"
            )
        return self.chains.chain(
            EventKind.RETIRED if view.waiting in view.working else EventKind.STARTED, view.waiting
        )

    def _why_empty(self, unit: Unit) -> Chain:
        """Return why the queue of a unit is empty: from the dispatch of its next instruction."""
        queue = self.recording.queued[unit]
        times = self.timing.dispatched[queue]
        following = queue[(times == NEVER) | (times >= self.cycle)]
        if len(following):
            return self.chains.chain(EventKind.QUEUED, int(following[0]))
        return self.chains.chain(EventKind.END)

    def path(self, layer: TracedLayer | None = None) -> Chain:
        """Return the critical path of the run, or of a layer: from the retirement of the layer's last
        instruction to the first event that is not after the layer's begin."""
        if layer is None:
            return self.chains.chain(EventKind.END)
        retired = layer.instructions[self.timing.retired[layer.instructions] != NEVER]
        if not len(retired):
            raise DebugError(
                f"no instruction of the layer {short(layer.name)} retires, so the layer has no critical "
                "path; ask for the path of the run"
            )
        last = int(retired[np.argmax(self.timing.retired[retired])])
        return self.chains.chain(EventKind.RETIRED, last, since=layer.begin)


def _at(array: IntArray, place: int) -> int:
    return int(array[place]) if place < len(array) else NONE


def debuggers_of(
    plan: Plan, outcome: Outcome, run_report: Report, memory: MemoryParameters | None = None
) -> tuple[Debugger, ...]:
    """Return a debugger for each launch of a module's run on the cycle device.

    Args:
        plan: of the network.
        outcome: of its run, or of `Module.rehearse`, with logs.
        run_report: of that run.
        memory: that it ran with; None: the memory of the plan's target.
    """
    return tuple(map(Debugger, recordings_of(plan, outcome, run_report, memory)))
