"""When an instruction may start: the token rule that the three units share."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from vdla.hw.layouts import decode
from vdla.hw.signatures import token_sink, token_source
from vdla.hw.spec import isa
from vdla.hw.spec.config import AcceleratorConfig


class StartGate(wiring.Component):
    """Hold an instruction back until its tokens are there and its pushes have room.

    Parameters:
        config: the accelerator.
        sides: the sides on which the unit has a neighbour: "prev", "next" or both.

    Members:
        instruction, valid: the head of the unit's queue.
        open: tokens and room are there for the instruction.
        start: it starts in this cycle; only while `valid` and `open`.
        waits_prev, waits_next, waits_room: the first of these that holds it back.
        pop_prev, pop_next, push_prev, push_next: the token edges of the unit's sides (without their `push`).

    Timing: combinational. Tokens are popped and places reserved in the cycle of `start`.
    """

    def __init__(self, config: AcceleratorConfig, sides: tuple[str, ...]) -> None:
        self.config = config
        self.sides = sides
        super().__init__(
            {
                "instruction": In(config.instruction_bits),
                "valid": In(1),
                "open": Out(1),
                "start": In(1),
                "waits_prev": Out(1),
                "waits_next": Out(1),
                "waits_room": Out(1),
                **{f"pop_{side}": Out(token_source()) for side in sides},
                **{f"push_{side}": Out(token_sink()) for side in sides},
            }
        )

    def elaborate(self, platform: object) -> Module:
        m = Module()
        flags = decode(isa.Instruction, self.config, self.instruction)
        lacks = {"prev": Signal(name="lacks_prev"), "next": Signal(name="lacks_next")}
        lacks_room = Signal()
        full = []
        for side in self.sides:
            pop, push = getattr(self, f"pop_{side}"), getattr(self, f"push_{side}")
            wants, gives = getattr(flags, f"pop_{side}"), getattr(flags, f"push_{side}")
            full.append(gives & ~push.room)
            m.d.comb += [
                lacks[side].eq(wants & ~pop.available),
                pop.pop.eq(self.start & wants),
                push.reserve.eq(self.start & gives),
            ]
        m.d.comb += [
            lacks_room.eq(Cat(full).any()),
            self.open.eq(~(lacks["prev"] | lacks["next"] | lacks_room)),
            self.waits_prev.eq(self.valid & lacks["prev"]),
            self.waits_next.eq(self.valid & lacks["next"] & ~lacks["prev"]),
            self.waits_room.eq(self.valid & lacks_room & ~lacks["prev"] & ~lacks["next"]),
        ]
        return m
