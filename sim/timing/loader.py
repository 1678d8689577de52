"""The load engine in time; `vdla.hw.loader` is the hardware."""

from vdla.hw.spec.timing import LOADS_IN_PROGRESS
from vdla.sim.compiled import part
from vdla.sim.timing.burst import burst_beats, burst_size
from vdla.sim.timing.columns import TimedInstruction, TimedProgram
from vdla.sim.timing.state import Hardware, Loader

STEP, TAKES_BEAT, TURNS, RETIRES, BEGINS = 1, 2, 4, 8, 16
"""What `loader_writes` did: a step; took a beat; turned to another kind of work; ended the instruction; began
with the next."""
CUT, LAST_CUT = 1, 2
"""What `loader_cuts` did: put a burst into the request register; the instruction's last."""


@part
def loader_idle(loader: Loader) -> bool:
    """Whether nothing is in progress."""
    return loader.level == 0


@part
def loader_takes(loader: Loader) -> bool:
    """Whether it can take an instruction: its request half has none to cut, and its queue has room."""
    return not loader.requesting and loader.level - loader.writing < LOADS_IN_PROGRESS - 1


@part
def loader_starts(loader: Loader, program: TimedProgram, index: int) -> None:
    """Take an instruction."""
    instruction = program[index]
    loader.items[(loader.first + loader.level) % LOADS_IN_PROGRESS] = index
    loader.level += 1
    loader.asked, loader.requesting, loader.rows = index, instruction.rows > 0, instruction.rows
    loader.address = loader.row = instruction.address
    loader.remaining = instruction.row_bytes


@part
def loader_cuts(loader: Loader, program: TimedProgram, hardware: Hardware) -> int:
    """Put the next burst into the request register, if that is empty; return what was done."""
    if loader.offered or not loader.requesting:
        return 0
    loader.offered, loader.offered_instruction, loader.offered_address = 1, loader.asked, loader.address
    loader.offered_beats = burst_beats(hardware, loader.address, loader.remaining)
    size = burst_size(hardware, loader.address, loader.remaining)
    loader.address += size
    loader.remaining -= size
    if loader.remaining == 0:
        instruction = program[loader.asked]
        loader.row += instruction.stride_bytes
        loader.address, loader.remaining = loader.row, instruction.row_bytes
        loader.rows -= 1
        loader.requesting = loader.rows > 0
    return CUT if loader.requesting else CUT | LAST_CUT


@part
def loader_cuts_last(loader: Loader, hardware: Hardware) -> bool:
    """Whether the next burst to be cut is its instruction's last."""
    return loader.rows == 1 and loader.remaining == burst_size(hardware, loader.address, loader.remaining)


@part
def loader_writes(loader: Loader, program: TimedProgram, hardware: Hardware, data: bool, holds: bool) -> int:
    """Carry out one write step, unless something `holds` it, where there is something to write; `data`: a
    beat is offered. Then take the next instruction where none is left. Return what was done."""
    waiting, done = loader.level - loader.writing, 0
    if loader.writing and not holds:
        done = _step(loader, program, hardware, data)
    if waiting > 0 and not loader.writing:
        _begin(loader, program, hardware)
        done |= TURNS | BEGINS
    return done


@part
def _step(loader: Loader, program: TimedProgram, hardware: Hardware, data: bool) -> int:
    """Carry out one write step of the instruction being written; return what was done."""
    done = 0
    if loader.pads_left > 0:
        loader.pads_left -= 1
        done = STEP if loader.pads_left > 0 else STEP | TURNS
    elif loader.rows_left > 0:
        if program[loader.written].gathers:
            done = _gather(loader, program, hardware, data)
        elif data:
            done = _write_data(loader, program, hardware)
        if done == 0:
            return 0
    else:
        done = STEP
    if loader.pads_left == 0 and loader.rows_left == 0:
        loader.first = (loader.first + 1) % LOADS_IN_PROGRESS
        loader.level -= 1
        loader.writing = 0
        done |= RETIRES
    return done


@part
def _missing(loader: Loader, instruction: TimedInstruction, hardware: Hardware) -> int:
    """Return the bytes of the row's first element, and the bytes before it in its beat."""
    return (loader.row_offset & ((1 << hardware.bus_shift) - 1)) + instruction.lane_bytes


@part
def _begin(loader: Loader, program: TimedProgram, hardware: Hardware) -> None:
    index = loader.items[loader.first]
    instruction = program[index]
    loader.writing, loader.written = 1, index
    loader.pads_left, loader.rows_left, loader.steps_left = (
        instruction.lead_steps,
        instruction.rows,
        instruction.row_steps,
    )
    loader.offset = loader.row_offset = instruction.address
    loader.missing = _missing(loader, instruction, hardware)


@part
def _write_data(loader: Loader, program: TimedProgram, hardware: Hardware) -> int:
    """Write an element or a beat; the beat is taken with the last element it holds of the row."""
    instruction = program[loader.written]
    loader.offset += instruction.lane_bytes
    loader.steps_left -= 1
    if loader.steps_left == 0:
        _next_row(loader, instruction)
        return STEP | TAKES_BEAT | TURNS
    return STEP if loader.offset & ((1 << hardware.bus_shift) - 1) else STEP | TAKES_BEAT


@part
def _gather(loader: Loader, program: TimedProgram, hardware: Hardware, data: bool) -> int:
    """Write one element if its bytes are there, and take a beat if the element behind it needs another."""
    instruction, done = program[loader.written], 0
    if loader.missing <= 0:
        loader.missing += instruction.step_bytes
        loader.steps_left -= 1
        done = STEP
        if loader.steps_left == 0:
            _next_row(loader, instruction)
            loader.missing = _missing(loader, instruction, hardware)
            done = STEP | TURNS
    if data and loader.missing > 0 and loader.rows_left > 0:
        loader.missing -= 1 << hardware.bus_shift
        done |= STEP | TAKES_BEAT
    return done


@part
def loader_turns(loader: Loader, program: TimedProgram) -> None:
    """Go on to the next row of the instruction being written."""
    _next_row(loader, program[loader.written])


@part
def _next_row(loader: Loader, instruction: TimedInstruction) -> None:
    loader.rows_left -= 1
    loader.pads_left = instruction.gap_steps if loader.rows_left > 0 else instruction.tail_steps
    loader.row_offset += instruction.stride_bytes
    loader.offset, loader.steps_left = loader.row_offset, instruction.row_steps


@part
def loader_steady_cycles(loader: Loader, program: TimedProgram, hardware: Hardware, done: int) -> int:
    """Return how many cycles on end will do what this cycle did, as far as this engine decides it."""
    if loader.pads_left > 0:
        return loader.pads_left - 1
    if program[loader.written].gathers:
        return _steady_elements(loader, program[loader.written], done)
    lane = program[loader.written].lane_bytes
    if lane >> hardware.bus_shift:
        return loader.steps_left - 1
    if done & TAKES_BEAT:
        return 0
    left_in_beat = (1 << hardware.bus_shift) - (loader.offset & ((1 << hardware.bus_shift) - 1))
    return min(loader.steps_left, left_in_beat // lane) - 1


@part
def _steady_elements(loader: Loader, instruction: TimedInstruction, done: int) -> int:
    """Return how many more elements of a GATHER can be written without another beat, after an element."""
    if done & TAKES_BEAT or loader.missing > 0:
        return 0
    if instruction.step_bytes == 0:
        return loader.steps_left - 1
    return min(loader.steps_left - 1, -loader.missing // instruction.step_bytes)


@part
def loader_skips(loader: Loader, program: TimedProgram, cycles: int) -> None:
    """Do `cycles` steps of the kind just done."""
    if loader.pads_left > 0:
        loader.pads_left -= cycles
    else:
        loader.steps_left -= cycles
        loader.offset += cycles * program[loader.written].lane_bytes
        loader.missing += cycles * program[loader.written].step_bytes
