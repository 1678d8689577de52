"""What the token counters promise."""

from amaranth.hdl import Module, Signal

from vdla.hw.formal.proof import Proof, implies
from vdla.hw.tokens import TokenCounter


class TokenProof(Proof):
    """A counter knows its tokens and the places that are reserved, and never has too many or too few.

    The units promise what `vdla.hw.signatures` asks of them: they pop only an available token, reserve only
    where there is room, and push only what they have reserved.

    Parameters:
        depth: tokens that the counter holds.
    """

    def __init__(self, depth: int, only: str | None = None) -> None:
        super().__init__(only)
        self.depth = depth

    def build(self, m: Module) -> None:
        m.submodules.counter = counter = TokenCounter(self.depth)
        push, reserve, pop = (self.free(name) for name in ("push", "reserve", "pop"))
        m.d.comb += [counter.sink.push.eq(push), counter.sink.reserve.eq(reserve), counter.source.pop.eq(pop)]
        tokens, reserved = Signal(range(-1, self.depth + 2)), Signal(range(-1, self.depth + 2))
        m.d.sync += [tokens.eq(tokens + push - pop), reserved.eq(reserved + reserve - push)]
        self.assumptions |= {
            "pop: only while available": implies(pop, counter.source.available),
            "reserve: only while there is room": implies(reserve, counter.sink.room),
            "push: only a reserved place": implies(push, reserved > 0),
        }
        self.claims |= {
            "tokens: never below zero": tokens >= 0,
            "tokens and reserved places: never above depth": tokens + reserved <= self.depth,
            "available: there is a token": counter.source.available == (tokens > 0),
            "room: for one more reservation": counter.sink.room == (tokens + reserved < self.depth),
        }
