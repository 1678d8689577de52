"""Host-visible registers of 32 bits at byte offsets: the map of AXI4-Lite and of the core's register port."""

from dataclasses import dataclass
from enum import Enum, IntFlag

from vdla.hw.spec.memories import counted_as
from vdla.hw.spec.timing import COUNTER_READ_CYCLES
from vdla.hw.spec.vocabulary import MemoryType, Unit

IDENTITY = int.from_bytes(b"VDLA", "big")
VERSION = 1


class Access(Enum):
    """Who may change a register."""

    READ = "read"
    WRITE = "read, write"
    COMMAND = "write 1 to act; reads 0"


class Control(IntFlag):
    """Bits of CONTROL."""

    START = 1 << 0
    CLEAR_INTERRUPT = 1 << 1


class Status(IntFlag):
    """Bits of STATUS."""

    RUNNING = 1 << 0
    DONE = 1 << 1
    INTERRUPT = 1 << 2
    FAULT = 1 << 3


class Fault(IntFlag):
    """Bits of FAULT: what went wrong in the last run; cleared by START."""

    INVALID_INSTRUCTION = 1 << 0
    UNFINISHED = 1 << 1
    SRAM_OVERRUN = 1 << 2
    MEMORY_ERROR = 1 << 3
    DEADLOCK = 1 << 4


MEANING: dict[type[IntFlag], dict[IntFlag, str]] = {
    Control: {
        Control.START: "starts a run; ignored while one is in progress",
        Control.CLEAR_INTERRUPT: "clears the interrupt",
    },
    Status: {
        Status.RUNNING: "a run is in progress",
        Status.DONE: "a run has ended since the last start",
        Status.INTERRUPT: "the interrupt is raised",
        Status.FAULT: "the last run ended with a fault; the register FAULT holds the cause",
    },
    Fault: {
        Fault.INVALID_INSTRUCTION: "an invalid instruction was fetched; the run ended there, see FAULT_INDEX",
        Fault.UNFINISHED: "every instruction was executed and none was FINISH",
        Fault.SRAM_OVERRUN: "an access reached past the end of a scratchpad, and the index wrapped; or a "
        "LOAD with the promise `beside` wrote into a half of ACC that a step used",
        Fault.MEMORY_ERROR: "the memory answered an access with an error",
        Fault.DEADLOCK: "the run was stopped because no unit could go on",
    },
}
"""The meaning of each bit, by register, because bits of different registers are equal as numbers."""


class UnitState(Enum):
    """What a unit does in one cycle of a run. In each cycle each unit is in exactly one state."""

    BUSY = "does useful work, or starts an instruction"
    MEMORY = "has an instruction in progress that waits for memory"
    TOKEN_PREV = "cannot start its next instruction: a token of the previous unit is missing"
    TOKEN_NEXT = "cannot start its next instruction: a token of the next unit is missing"
    ROOM = "cannot start its next instruction: a token counter that it pushes to is full"
    INSTRUCTION = "waits for its next instruction to be dispatched"
    IDLE = "has nothing left to do"


@dataclass(frozen=True, slots=True)
class Register:
    """One 32-bit register at byte offset `offset`, whose value the register port gives after `read_cycles` of
    its address."""

    name: str
    offset: int
    access: Access
    help: str
    reset: int = 0
    read_cycles: int = 1


_FIXED = (
    ("IDENTITY", Access.READ, "the letters VDLA", IDENTITY),
    ("VERSION", Access.READ, "version of this register map", VERSION),
    ("CONFIG_DIGEST", Access.READ, "first 32 bits of the configuration's digest", 0),
    ("CONTROL", Access.COMMAND, "starts a run, or clears the interrupt", 0),
    ("STATUS", Access.READ, "the state of the run and of the interrupt", 0),
    ("INTERRUPT_ENABLE", Access.WRITE, "1: raise the interrupt when a run is done", 0),
    ("FAULT", Access.READ, "faults of the last run, one bit each", 0),
    ("FAULT_INDEX", Access.READ, "position in the stream of the invalid instruction", 0),
    (
        "STREAM_ADDRESS",
        Access.WRITE,
        "byte address of the first instruction, low 32 bits; a multiple of an instruction's bytes",
        0,
    ),
    ("STREAM_ADDRESS_HIGH", Access.WRITE, "byte address of the first instruction, high 32 bits", 0),
    ("STREAM_COUNT", Access.WRITE, "instructions in the stream", 0),
    ("CYCLES", Access.READ, "cycles of the run, from the acceptance of START to done, low 32 bits", 0),
    ("CYCLES_HIGH", Access.READ, "cycles of the run, high 32 bits", 0),
)

COUNTED_STATES = tuple(state for state in UnitState if state is not UnitState.IDLE)
COUNTED_MEMORIES = tuple(memory for memory in MemoryType if counted_as(memory) is memory)


def state_counter(unit: Unit, state: UnitState) -> str:
    """Return the name of the register that counts the cycles of `unit` in `state`."""
    return f"{unit.name}_{state.name}"


def beat_counter(memory: MemoryType | None) -> str:
    """Return the register name of the beats of `memory`; None: of fetch. ACC_8BIT counts as ACC."""
    return f"{memory.name if memory is not None else 'FETCH'}_BEATS"


def _counters() -> dict[str, str]:
    rows = {
        state_counter(unit, state): f"cycles in which the {unit.name.lower()} unit {state.value}"
        for unit in Unit
        for state in COUNTED_STATES
    }
    rows |= {
        beat_counter(
            memory
        ): f"memory beats moved for {memory.name if memory is not None else 'instructions'}"
        for memory in (None, *COUNTED_MEMORIES)
    }
    return rows | {
        "GEMM_STEPS": "micro-op steps that GEMM instructions executed, and sums of DEPTHWISE instructions",
        "ALU_STEPS": "micro-op steps that ALU instructions executed",
    }


COUNTERS = _counters()
TOTALS = ("CYCLES_HIGH", *COUNTERS)
"""The registers that share the memory of totals, in the order of their offsets, one behind the other."""


def _registers() -> tuple[Register, ...]:
    rows = [*_FIXED, *((name, Access.READ, text, 0) for name, text in COUNTERS.items())]
    return tuple(
        Register(name, 4 * index, access, text, reset, COUNTER_READ_CYCLES if name in TOTALS else 1)
        for index, (name, access, text, reset) in enumerate(rows)
    )


REGISTERS = _registers()
OFFSETS = {register.name: register.offset for register in REGISTERS}
READ_CYCLES = {register.name: register.read_cycles for register in REGISTERS}
REGISTER_SPACE_BITS = (4 * len(REGISTERS) - 1).bit_length()
