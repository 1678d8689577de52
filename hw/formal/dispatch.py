"""What dispatch promises."""

from amaranth.hdl import Module, Mux, Signal, Value

from vdla.hw.dispatch import Dispatch
from vdla.hw.formal.proof import ConfiguredProof, implies, is_taken

UNITS = ("load", "compute", "store")


class DispatchProof(ConfiguredProof):
    """Dispatch passes each instruction to its one unit, and nothing behind the end of the stream.

    Fetch promises a stream whose items stay until they are taken, and kinds of at most one unit.

    Parameters:
        config: the accelerator.
    """

    def build(self, m: Module) -> None:
        m.submodules.dispatch = dispatch = Dispatch(self.config)
        self.source(m, "instruction", dispatch.instruction)
        offered = dispatch.instruction
        kind = offered.payload.kind
        self.assumptions["a kind has one unit"] = ~(kind.load & kind.store)
        outputs = {unit: getattr(dispatch, unit) for unit in UNITS}
        for unit, output in outputs.items():
            self.sink(m, unit, output)
        ended = Signal()
        passes, valid = is_taken(offered) & ~ended, offered.valid & ~ended
        wanted = {"load": kind.load, "store": kind.store, "compute": ~kind.load & ~kind.store}
        for unit, output in outputs.items():
            mine = valid & ~kind.invalid & wanted[unit]
            self.claims |= {
                f"{unit}: is offered its instructions alone": output.valid == mine,
                f"{unit}: takes an instruction as it leaves fetch": is_taken(output)
                == (passes & ~kind.invalid & wanted[unit]),
                f"{unit}: instructions are unchanged": implies(
                    output.valid, output.payload == offered.payload.word
                ),
            }
        self.claims |= {
            "moved: an instruction is taken": dispatch.moved == passes,
            "behind the end all is dropped": implies(ended, offered.ready),
            "the invalid are dropped at once": implies(valid & kind.invalid, offered.ready),
        }
        self._end(m, dispatch, ended, passes)

    def _end(self, m: Module, dispatch: Dispatch, ended: Signal, passes: Value) -> None:
        """Claim what dispatch tells of the end."""
        kind = dispatch.instruction.payload.kind
        position, invalid, index = Signal(32), Signal(), Signal(32)
        with m.If(passes):
            m.d.sync += [
                position.eq(position + 1),
                ended.eq(kind.finish | kind.invalid),
                invalid.eq(kind.invalid),
            ]
            m.d.sync += index.eq(Mux(kind.invalid, position, index))
        self.claims |= {
            "ended: from FINISH or an invalid instruction on": dispatch.ended == ended,
            "invalid: at an invalid instruction": dispatch.invalid == invalid,
            "invalid_index: its position": implies(invalid, dispatch.invalid_index == index),
        }
