"""The commands of the terminal stepper: words in, lines of text out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from vdla.explore.debug.breakpoints import number_of, scratchpad_named
from vdla.explore.debug.debugger import Debugger
from vdla.explore.debug.recording import DebugError
from vdla.explore.debug.text import (
    chain_lines,
    counter_lines,
    error_lines,
    history_lines,
    instruction_lines,
    layer_lines,
    memory_lines,
    place_line,
    reason_lines,
    state_lines,
    touch_lines,
    value_lines,
)
from vdla.hw.spec.showing import short
from vdla.hw.spec.units import Unit
from vdla.sim.verify.columns import DRAM

MOST_LINKS = 20
UNTOUCHED = "no instruction of the run touches it"
BACK = "back"
UNITS = {unit.name.lower(): unit for unit in Unit}


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the stepper.

    Attributes:
        arguments: as the help shows them.
        help: what the command does.
        run: takes the stepper and the words behind the name, and returns lines of text.
    """

    arguments: str
    help: str
    run: Callable[["Stepper", Sequence[str]], Iterable[str]]


class Stepper:
    """The launches of a run, and the debugger of the launch that is looked at.

    Attributes:
        debuggers: of each launch.
        debugger: of the current launch.
        ended: `quit` was given.
    """

    def __init__(self, debuggers: Sequence[Debugger]) -> None:
        assert debuggers
        self.debuggers = tuple(debuggers)
        self.debugger = self.debuggers[0]
        self.ended = False

    def do(self, line: str) -> list[str]:
        """Carry out a line of commands; return lines of text. An empty line, or a comment after #, does
        nothing.

        Raises:
            DebugError: there is no such command, or its arguments do not fit.
        """
        words = line.split("#", 1)[0].split()
        if not words:
            return []
        return list(COMMANDS[_name(words[0])].run(self, words[1:]))

    def here(self) -> list[str]:
        """Return the line that says where the debugger stands."""
        return [place_line(self.debugger)]


def _name(word: str) -> str:
    """Return the name of a command that a word is, or begins."""
    if word in COMMANDS:
        return word
    names = [name for name in COMMANDS if name.startswith(word)]
    if len(names) == 1:
        return names[0]
    choice = f"it begins {' and '.join(names)}" if names else f"commands are {', '.join(COMMANDS)}"
    raise DebugError(f"there is no command {short(word)}: {choice}; help lists what each does")


def _count(words: Sequence[str], command: str) -> int:
    """Return the number in the only word, or 1 without a word."""
    if len(words) > 1:
        raise _misfit(command, words)
    return number_of(words[0], "a number of steps") if words else 1


def _misfit(command: str, words: Sequence[str]) -> DebugError:
    form = f"{command} {COMMANDS[command].arguments}".strip()
    return DebugError(f"{command} does not take {short(' '.join(words)) or 'no argument'!r}; write {form}")


def _step(stepper: Stepper, words: Sequence[str]) -> list[str]:
    stepper.debugger.step(_count(words, "step"))
    return stepper.here()


def _back(stepper: Stepper, words: Sequence[str]) -> list[str]:
    stepper.debugger.step(-_count(words, "back"))
    return stepper.here()


def _next(stepper: Stepper, words: Sequence[str]) -> list[str]:
    return _instructions(stepper, words, "next", 1)


def _previous(stepper: Stepper, words: Sequence[str]) -> list[str]:
    return _instructions(stepper, words, "previous", -1)


def _instructions(stepper: Stepper, words: Sequence[str], name: str, sign: int) -> list[str]:
    unit = UNITS.get(words[0]) if words else None
    count = _count(words[1:] if unit is not None else words, name)
    if count < 1:
        raise _misfit(name, words)
    if stepper.debugger.next_instruction(unit, sign * count):
        return stepper.here()
    return ["no such instruction starts", *stepper.here()]


def _layer(stepper: Stepper, words: Sequence[str]) -> list[str]:
    debugger = stepper.debugger
    match list(words):
        case [] | ["next"]:
            moved = debugger.next_layer()
        case [word] if word == BACK:
            moved = debugger.next_layer(-1)
        case [name]:
            debugger.goto(debugger.layer(name).begin)
            moved = True
        case _:
            raise _misfit("layer", words)
    return stepper.here() if moved else ["no such layer", *stepper.here()]


def _goto(stepper: Stepper, words: Sequence[str]) -> list[str]:
    match list(words):
        case ["instruction", number]:
            stepper.debugger.goto_instruction(number_of(number, "the number of an instruction"))
        case ["end"]:
            stepper.debugger.goto(stepper.debugger.timing.cycles)
        case [number]:
            stepper.debugger.goto(number_of(number, "a cycle"))
        case _:
            raise _misfit("goto", words)
    return stepper.here()


def _find(stepper: Stepper, words: Sequence[str]) -> list[str]:
    backwards = len(words) > 1 and words[-1] == BACK
    pattern = " ".join(words[:-1] if backwards else words)
    if not pattern:
        raise _misfit("find", words)
    if stepper.debugger.find(pattern, backwards=backwards):
        return stepper.here()
    return [f"no instruction {'before' if backwards else 'behind'} this cycle matches", *stepper.here()]


def _why(stepper: Stepper, words: Sequence[str]) -> list[str]:
    match list(words):
        case [name] if name in UNITS:
            subjects: list[Unit | int] = [UNITS[name]]
        case [number]:
            subjects = [number_of(number, "a unit or the number of an instruction")]
        case []:
            subjects = [view.unit for view in stepper.debugger.state().units if view.waits]
        case _:
            raise _misfit("why", words)
    lines = [line for each in subjects for line in chain_lines(stepper.debugger.why(each), MOST_LINKS)]
    return lines or ["no unit waits in this cycle"]


def _path(stepper: Stepper, words: Sequence[str]) -> list[str]:
    if len(words) > 1:
        raise _misfit("path", words)
    layer = stepper.debugger.layer(words[0]) if words else None
    chain = stepper.debugger.path(layer)
    return [*chain_lines(chain, MOST_LINKS), *reason_lines(chain)]


def _state(stepper: Stepper, words: Sequence[str]) -> Iterator[str]:
    _none(words, "state")
    return state_lines(stepper.debugger)


def _counters(stepper: Stepper, words: Sequence[str]) -> Iterable[str]:
    _none(words, "counters")
    return counter_lines(stepper.debugger.state())


def _info(stepper: Stepper, words: Sequence[str]) -> list[str]:
    debugger = stepper.debugger
    if len(words) > 1 or (not words and debugger.selected < 0):
        raise _misfit("info", words)
    index = number_of(words[0], "the number of an instruction") if words else debugger.selected
    return [*instruction_lines(debugger.instruction(index)), *touch_lines(debugger, index)]


def _memory(stepper: Stepper, words: Sequence[str]) -> Iterable[str]:
    debugger = stepper.debugger
    if len(words) > 1:
        raise _misfit("memory", words)
    memories = debugger.contents.scratchpads
    return memory_lines(
        debugger, [scratchpad_named(debugger.recording, word) for word in words] or list(memories)
    )


def _element(stepper: Stepper, words: Sequence[str]) -> list[str]:
    memory, place = _place(stepper, words, "element")
    return list(history_lines(stepper.debugger, memory, place)) or [UNTOUCHED]


def _values(stepper: Stepper, words: Sequence[str]) -> list[str]:
    memory, place = _place(stepper, words, "values")
    return list(value_lines(stepper.debugger, memory, place)) or [UNTOUCHED]


def _place(stepper: Stepper, words: Sequence[str], command: str) -> tuple[int, int]:
    """Return the memory and the element, or byte, that words name."""
    if len(words) != 2:
        raise _misfit(command, words)
    name, number = words
    memory = DRAM if name == "DRAM" else scratchpad_named(stepper.debugger.recording, name)
    return memory, number_of(number, "an element")


def _errors(stepper: Stepper, words: Sequence[str]) -> list[str]:
    _none(words, "errors")
    return list(error_lines(stepper.debugger)) or ["no errors"]


def _layers(stepper: Stepper, words: Sequence[str]) -> list[str]:
    _none(words, "layers")
    return list(layer_lines(stepper.debugger)) or ["this run has no layers"]


def _none(words: Sequence[str], command: str) -> None:
    if words:
        raise _misfit(command, words)


def _break(stepper: Stepper, words: Sequence[str]) -> list[str]:
    if not words:
        points = stepper.debugger.breakpoints
        return [f"  {number}  {point.text}" for number, point in enumerate(points, 1)] or ["no breakpoints"]
    added = stepper.debugger.add_breakpoint(words)
    count = len(added.cycles)
    times = f"begins to hold {count} time{'s' * (count != 1)}" if count else "never holds"
    return [f"breakpoint {len(stepper.debugger.breakpoints)}: {added.text}, {times} in this run"]


def _delete(stepper: Stepper, words: Sequence[str]) -> list[str]:
    points = stepper.debugger.breakpoints
    if not words:
        points.clear()
        return ["no breakpoints"]
    number = _count(words, "delete")
    if not 1 <= number <= len(points):
        numbers = f"numbers are 1 to {len(points)}" if points else "there is none"
        raise DebugError(f"there is no breakpoint {number}: {numbers}; break lists them")
    del points[number - 1]
    return _break(stepper, ())


def _continue(stepper: Stepper, words: Sequence[str]) -> list[str]:
    if list(words) not in ([], [BACK]):
        raise _misfit("continue", words)
    stopped = stepper.debugger.resume(backwards=bool(words))
    reason = "the run has no other stop" if stopped is None else f"breakpoint: {stopped.text}"
    return [reason, *stepper.here()]


def _launch(stepper: Stepper, words: Sequence[str]) -> list[str]:
    if words:
        number = _count(words, "launch")
        if not 1 <= number <= len(stepper.debuggers):
            last = len(stepper.debuggers)
            raise DebugError(f"there is no launch {number}: launches are 1 to {last}; choose one of these")
        stepper.debugger = stepper.debuggers[number - 1]
    lines = []
    for number, each in enumerate(stepper.debuggers, 1):
        mark = "*" if each is stepper.debugger else " "
        size = f"{len(each.recording):,} instructions, {each.timing.cycles:,} cycles"
        lines.append(f"{mark} {number}  {each.recording.name}: {size}")
    return lines


def _help(stepper: Stepper, words: Sequence[str]) -> list[str]:
    _none(words, "help")
    forms = {f"{name} {command.arguments}".strip(): command.help for name, command in COMMANDS.items()}
    width = max(map(len, forms))
    return [f"  {form:<{width}}  {text}" for form, text in forms.items()]


def _quit(stepper: Stepper, words: Sequence[str]) -> list[str]:
    _none(words, "quit")
    stepper.ended = True
    return []


COMMANDS = {
    "step": Command("[N]", "go on by N cycles", _step),
    "back": Command("[N]", "go back by N cycles", _back),
    "next": Command("[load|compute|store] [N]", "go to the N-th next start of an instruction", _next),
    "previous": Command("[load|compute|store] [N]", "go to the N-th start before", _previous),
    "layer": Command("[next|back|NAME]", "go to the begin of a layer", _layer),
    "goto": Command("CYCLE|end|instruction N", "go to a cycle, or to the start of an instruction", _goto),
    "find": Command("PATTERN [back]", "go to an instruction whose assembly or layer matches", _find),
    "why": Command("[load|compute|store|N]", "what a unit or an instruction waits for, to the root", _why),
    "path": Command("[LAYER]", "the critical path of the run, or of a layer", _path),
    "state": Command("", "units, queues, tokens and memory in this cycle", _state),
    "counters": Command("", "the performance counters of the cycles before", _counters),
    "info": Command("[N]", "cycles, tokens, reads and writes of an instruction", _info),
    "memory": Command("[MEMORY]", "what lies in the scratchpads, or in one scratchpad", _memory),
    "element": Command("MEMORY N", "who reads and writes an element, or a byte of DRAM", _element),
    "values": Command("MEMORY N", "the values that instructions leave in an element", _values),
    "errors": Command("", "stops, unsafe accesses and wrong results", _errors),
    "layers": Command("", "the layers with their cycles and instructions", _layers),
    "break": Command(
        "[instruction N|/PATTERN/|address N|element MEMORY N|tokens EDGE OP N|queue UNIT OP N|COUNTER OP N]",
        "add a breakpoint, or list them",
        _break,
    ),
    "delete": Command("[N]", "delete a breakpoint, or all", _delete),
    "continue": Command("[back]", "go on to the next breakpoint", _continue),
    "launch": Command("[N]", "list the launches, or change to one", _launch),
    "help": Command("", "this list", _help),
    "quit": Command("", "end", _quit),
}
