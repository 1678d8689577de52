"""The units, which instruction runs in which, and the token edges between them."""

from dataclasses import dataclass
from enum import IntEnum

from vdla.hw.spec.isa import Instruction, Load, Store
from vdla.hw.spec.vocabulary import MemoryType


class Unit(IntEnum):
    """The three units that execute instructions, in the order in which data passes through them."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2


LOAD_UNIT_MEMORIES = (MemoryType.INP, MemoryType.WGT)


def unit_of(instruction: Instruction) -> Unit:
    """Return the unit that executes `instruction`."""
    match instruction:
        case Load(memory_type=memory) if memory in LOAD_UNIT_MEMORIES:
            return Unit.LOAD
        case Store():
            return Unit.STORE
        case _:
            return Unit.COMPUTE


@dataclass(frozen=True, slots=True)
class TokenEdge:
    """A counter of dependency tokens: `producer` pushes, `consumer` pops."""

    producer: Unit
    consumer: Unit

    @property
    def push_flag(self) -> str:
        """Instruction flag with which the producer pushes onto this edge."""
        return "push_next" if self.consumer > self.producer else "push_prev"

    @property
    def pop_flag(self) -> str:
        """Instruction flag with which the consumer pops from this edge."""
        return "pop_prev" if self.consumer > self.producer else "pop_next"

    def __str__(self) -> str:
        return f"{self.producer.name.lower()}->{self.consumer.name.lower()}"


TOKEN_EDGES = (
    TokenEdge(Unit.LOAD, Unit.COMPUTE),
    TokenEdge(Unit.COMPUTE, Unit.LOAD),
    TokenEdge(Unit.COMPUTE, Unit.STORE),
    TokenEdge(Unit.STORE, Unit.COMPUTE),
)


def pops(instruction: Instruction) -> tuple[TokenEdge, ...]:
    """Return the edges on which `instruction` waits for a token.

    A flag that names no edge of its unit (`pop_prev` of the load unit, `pop_next` of the store unit) has no
    effect.
    """
    unit = unit_of(instruction)
    return tuple(
        edge for edge in TOKEN_EDGES if edge.consumer is unit and getattr(instruction, edge.pop_flag)
    )


def pushes(instruction: Instruction) -> tuple[TokenEdge, ...]:
    """Return the edges onto which `instruction` pushes a token when it retires."""
    unit = unit_of(instruction)
    return tuple(
        edge for edge in TOKEN_EDGES if edge.producer is unit and getattr(instruction, edge.push_flag)
    )
