"""States, instructions and chains of a recorded run as lines of text."""

from collections.abc import Iterable, Iterator, Sequence

from vdla.explore.debug.chains import Chain, Link, event_text
from vdla.explore.debug.contents import Issue, TouchView
from vdla.explore.debug.debugger import Debugger, InstructionView
from vdla.explore.debug.events import EventKind
from vdla.explore.debug.recording import NONE
from vdla.explore.debug.state import BurstView, State, UnitView
from vdla.explore.debug.touches import memory_name
from vdla.hw.spec.showing import short
from vdla.hw.spec.timing import Client
from vdla.hw.spec.vocabulary import MemoryType
from vdla.sim.timing.result import NEVER

MOST_QUEUED = 6
MOST_BURSTS = 4
MOST_HELD = 12
MOST_VALUES = 16
LONGEST_ASSEMBLY = 150
INDENT = " " * 11


def place_line(debugger: Debugger) -> str:
    """Return where a debugger stands: cycle, layer, and the instruction that it went to."""
    layer = debugger.states.layer(debugger.cycle)
    parts = [f"cycle {debugger.cycle:,} of {debugger.timing.cycles:,}"]
    if layer != NONE:
        parts.append(f"layer {debugger.recording.layers[layer].name}")
    if debugger.selected != NONE:
        parts.append(named(debugger, debugger.selected))
    return ", ".join(parts)


def named(debugger: Debugger, index: int) -> str:
    """Return the number and the assembly of an instruction."""
    return f"{index} {short(debugger.recording.texts[index], LONGEST_ASSEMBLY)}"


def state_lines(debugger: Debugger) -> Iterator[str]:
    """Yield the state at the cycle that a debugger stands at."""
    state = debugger.state()
    yield place_line(debugger)
    for unit in state.units:
        yield from _unit_lines(debugger, unit)
    yield from _dispatch_lines(debugger, state)
    yield f"  {'tokens':<9}{', '.join(_tokens(state))}"
    yield f"  {'memory':<9}{_bursts(state.bursts)}"


def _unit_lines(debugger: Debugger, unit: UnitView) -> Iterator[str]:
    yield f"  {unit.unit.name.lower():<9}{unit.text}"
    for index in unit.working:
        yield f"{INDENT}in progress  {named(debugger, index)}"
    if unit.queue:
        yield f"{INDENT}next         {named(debugger, unit.head)}"
    yield f"{INDENT}queue        {len(unit.queue)} of {unit.depth}{_listed(unit.queue)}"


def _listed(queue: Sequence[int]) -> str:
    if not queue:
        return ""
    more = ", ..." if len(queue) > MOST_QUEUED else ""
    return f": {', '.join(map(str, queue[:MOST_QUEUED]))}{more}"


def _dispatch_lines(debugger: Debugger, state: State) -> Iterator[str]:
    dispatch = state.dispatch
    text = dispatch.text
    if dispatch.following != NONE:
        text = f"{text}: {named(debugger, dispatch.following)}"
    yield f"  {'dispatch':<9}{text}"


def _tokens(state: State) -> Iterator[str]:
    for counter in state.tokens:
        promised = f" and {counter.taken - counter.held} promised" if counter.taken > counter.held else ""
        yield f"{counter.edge} {counter.held}{promised}"


def _bursts(bursts: Sequence[BurstView]) -> str:
    if not bursts:
        return "no burst in flight"
    shown = ", ".join(map(_burst, bursts[:MOST_BURSTS]))
    more = f", {len(bursts) - MOST_BURSTS} more" if len(bursts) > MOST_BURSTS else ""
    return f"{len(bursts)} in flight: {shown}{more}"


def _burst(burst: BurstView) -> str:
    owner = "fetch" if burst.client is Client.FETCH else f"instruction {burst.instruction}"
    return f"{burst.beats} beats of {owner} {burst.phase}"


def instruction_lines(view: InstructionView) -> Iterator[str]:
    """Yield what is known of an instruction."""
    yield f"instruction {view.index}  {view.text}"
    layer = f", layer {view.layer}" if view.layer else ""
    yield f"  {view.unit.name.lower()} unit{layer}"
    yield f"  queued {_cycle(view.queued)}, starts {_cycle(view.started)}, retires {_cycle(view.retired)}"
    for token in view.taken:
        giver = f"instruction {token.producer}" if token.producer != NONE else "no instruction"
        yield f"  takes a token {token.edge} that {giver} gives"
    if view.issue is not None:
        yield f"  {_issue(view.issue)}"
    for token in view.given:
        taker = f"instruction {token.consumer}" if token.consumer != NONE else "no instruction"
        yield f"  gives a token {token.edge} that {taker} takes"


def _issue(issue: Issue) -> str:
    lent = f"; the store unit took {issue.lent:,} more for {_writers(issue.stores)}" if issue.lent else ""
    return f"issues {issue.slots:,} slot{'s' * (issue.slots != 1)}{lent}"


def touch_lines(debugger: Debugger, index: int) -> Iterator[str]:
    """Yield what an instruction reads and writes, and the instructions from which it has what it reads."""
    for touch in debugger.contents.touched(index):
        yield f"  {_verb(touch):<7} {_where(touch)}"
    sources: dict[int, list[str]] = {}
    for memory, writer in debugger.contents.flow.sources(index):
        sources.setdefault(memory, []).append(str(writer) if writer != NONE else "before the run")
    for memory, writers in sources.items():
        shown = ", ".join(writers[:MOST_QUEUED]) + (", ..." if len(writers) > MOST_QUEUED else "")
        yield f"  {memory_name(memory)} from {shown}"


def _verb(touch: TouchView) -> str:
    return "reads" if not touch.writes else "adds to" if touch.reads else "writes"


def _where(touch: TouchView) -> str:
    area = f" of {touch.area}" if touch.area else ""
    return f"{memory_name(touch.memory)} {touch.text}{area}"


def history_lines(debugger: Debugger, memory: int, place: int) -> Iterator[str]:
    """Yield the instructions that touch an element of a scratchpad, or a byte of DRAM."""
    for touch in debugger.contents.history(memory, place):
        started = _cycle(int(debugger.timing.started[touch.instruction]))
        yield f"  {_verb(touch):<7} {started:<20} {named(debugger, touch.instruction)}"


def value_lines(debugger: Debugger, memory: int, place: int) -> Iterator[str]:
    """Yield the values that instructions leave in an element of a scratchpad, or in a byte of DRAM."""
    for index, values in debugger.values(memory, place):
        flat = values.reshape(-1).tolist()
        more = ", ..." if len(flat) > MOST_VALUES else ""
        retired = _cycle(int(debugger.timing.retired[index]))
        yield f"  {index:>6}  {retired:<20} {', '.join(map(str, flat[:MOST_VALUES]))}{more}"


def memory_lines(debugger: Debugger, memories: Iterable[MemoryType]) -> Iterator[str]:
    """Yield what lies in some scratchpads at the cycle that a debugger stands at."""
    config = debugger.recording.program.config
    for memory in memories:
        held = debugger.held(memory)
        used = sum(each.end - each.begin for each in held)
        yield f"  {memory.name:<6} {used:,} of {config.depth(memory):,} elements written"
        for each in held[:MOST_HELD]:
            yield f"{INDENT}{each.begin}..{each.end - 1} {each.label}, by {_writers(each.writers)}"
        if len(held) > MOST_HELD:
            yield f"{INDENT}{len(held) - MOST_HELD} more"


def _writers(writers: Sequence[int]) -> str:
    shown = ", ".join(map(str, writers[:MOST_QUEUED]))
    return shown + (f", ... {writers[-1]}" if len(writers) > MOST_QUEUED else "")


def error_lines(debugger: Debugger) -> Iterator[str]:
    """Yield the errors of a run, and the instructions to look at."""
    for number, error in enumerate(debugger.errors, 1):
        yield f"{number:>4}  {error.kind} at cycle {error.cycle:,}: {error.text}"
        for index, relation in error.others:
            yield f"      {relation}: {named(debugger, index)}"


def _cycle(cycle: int) -> str:
    return "never" if cycle == NEVER else f"in cycle {cycle:,}"


def chain_lines(chain: Chain, most: int) -> Iterator[str]:
    """Yield a chain of causes: its links, joined between bursts of one instruction, and the sums by reason.

    Args:
        most: links that are listed.
    """
    links = chain.joined()
    yield f"{event_text(chain.event)}: {_when(chain.event.cycle)}"
    if links:
        yield f"  {'cycles':>9}  {'at cycle':>11}  waited for"
    yield from map(_link_line, links[:most])
    if len(links) > most:
        rest = sum(link.cycles for link in links[most:])
        yield f"  {rest:>9,}  {'':>11}  {_links(len(links) - most)} more"
    yield f"  {chain.cycles:>9,}  {'':>11}  {_root(chain)}"


def _root(chain: Chain) -> str:
    count = f"sum of {_links(len(chain.links))}"
    if chain.root.kind is EventKind.NOTHING:
        return f"{count}, to an event that no instruction of the stream provides"
    if chain.turns:
        return f"{count}, to {event_text(chain.root)}: a cycle of waits"
    return f"{count}, back to cycle {chain.root.cycle:,}: {event_text(chain.root)}"


def _links(count: int) -> str:
    return f"{count} link{'s' * (count != 1)}"


def _when(cycle: int) -> str:
    return "never" if cycle == NEVER else f"cycle {cycle:,}"


def _link_line(link: Link) -> str:
    cycle = "never" if link.cause.cycle == NEVER else f"{link.cause.cycle:,}"
    return f"  {link.cycles:>9,}  {cycle:>11}  {link.text}: {event_text(link.cause)}"


def reason_lines(chain: Chain) -> Iterator[str]:
    """Yield the cycles of a chain by what its events waited for."""
    total = max(chain.cycles, 1)
    yield f"  {'cycles':>9}  {'share':>6}  {'links':>6}  waited for"
    for text, count, cycles in chain.by_reason():
        yield f"  {cycles:>9,}  {cycles / total:>6.1%}  {count:>6,}  {text}"


def counter_lines(state: State) -> Iterable[str]:
    """Return the performance counters of the cycles before a state."""
    width = max(map(len, state.counters))
    return [f"  {name:<{width}}  {value:,}" for name, value in state.counters.items()]


def layer_lines(debugger: Debugger) -> Iterator[str]:
    """Yield the layers of a run, with their cycles and the numbers of their instructions."""
    for number, layer in enumerate(debugger.recording.layers):
        indices = layer.instructions
        span = (
            f"{len(indices)} instruction{'s' * (len(indices) != 1)}, {indices.min()} to {indices.max()}"
            if len(indices)
            else "no instructions"
        )
        yield f"  {number:>4}  {layer.name}  cycles {layer.begin:,} to {layer.end:,}, {span}"
