"""The units, which instruction runs in which, and the token edges between them."""

from dataclasses import dataclass

from vdla.hw.spec.footprint import executing_unit
from vdla.hw.spec.isa import Instruction
from vdla.hw.spec.vocabulary import Unit

__all__ = ["TOKEN_EDGES", "TokenEdge", "Unit", "pops", "pushes", "unit_of"]


def unit_of(instruction: Instruction) -> Unit:
    """Return the unit that executes a valid instruction."""
    return executing_unit(type(instruction), getattr(instruction, "memory_type", None))


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
