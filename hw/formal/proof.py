"""Circuits that state what must hold of the hardware, for provers.

A proof is a circuit around a component. Its inputs are free: in every cycle they take every value. Its claims
must hold in every cycle that the assumptions allow. The reset is free as well: a component keeps its promises
from any reset on, whatever its memories and its registers without reset hold then.
"""

from amaranth.hdl import Assert, Assume, Elaboratable, Module, Mux, ShapeLike, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import PureInterface

from vdla.hw.spec.config import AcceleratorConfig


class Proof(Elaboratable):
    """A circuit with claims.

    Attributes:
        ports: the free signals, as `vdla.hw.rtlil.rtlil_of` takes them; complete after `build`.
        claims: what must hold in every cycle, by name; complete after `build`.
        assumptions: what the surroundings promise, by name.
        only: the name of a single claim to assert; None: all claims.
    """

    def __init__(self, only: str | None = None) -> None:
        self.only = only
        self.ports: dict[str, tuple[Signal, None]] = {}
        self.claims: dict[str, Value] = {}
        self.assumptions: dict[str, Value] = {}

    def build(self, m: Module) -> None:
        """Add the component and its surroundings to `m`; fill `claims` and `assumptions`."""
        raise NotImplementedError

    def elaborate(self, platform: object) -> Module:
        m = Module()
        self.build(m)
        for held in self.assumptions.values():
            m.d.comb += Assume(held)
        for name, claim in self.claims.items():
            if self.only in (None, name):
                m.d.comb += Assert(claim)
        return m

    def free(self, name: str, shape: ShapeLike = 1) -> Signal:
        """Return an input that takes every value in every cycle."""
        signal = Signal(shape, name=name)
        self.ports[name] = (signal, None)
        return signal

    def source(self, m: Module, name: str, sink: PureInterface) -> None:
        """Offer a component's stream `sink` free items, each of which stays until it is taken."""
        offers = Signal(name=f"{name}_waits")
        payload = Value.cast(sink.payload)
        fresh, kept = self.free(f"{name}_payload", len(payload)), Signal(len(payload), name=f"{name}_kept")
        starts = self.free(f"{name}_valid")
        m.d.comb += [sink.valid.eq(starts | offers), payload.eq(Mux(offers, kept, fresh))]
        m.d.sync += [offers.eq(sink.valid & ~sink.ready), kept.eq(payload)]

    def sink(self, m: Module, name: str, source: PureInterface) -> None:
        """Take the items of a component's stream at any time; claim that each stays until it is taken."""
        m.d.comb += source.ready.eq(self.free(f"{name}_ready"))
        self.stays(m, name, source.valid, source.ready, Value.cast(source.payload))

    def stays(self, m: Module, name: str, valid: Value, ready: Value, payload: Value) -> None:
        """Claim that an item that is offered and not taken is offered again, unchanged."""
        waits, kept = Signal(name=f"{name}_was_waiting"), Signal(len(payload), name=f"{name}_was")
        m.d.sync += [waits.eq(valid & ~ready), kept.eq(payload)]
        self.claims[f"{name}: valid stays until ready"] = ~waits | valid
        self.claims[f"{name}: payload stays until ready"] = ~waits | (payload == kept)

    def in_order(
        self,
        m: Module,
        name: str,
        entrance: tuple[Value, Value],
        way_out: tuple[Value, Value, Value],
        most: int,
    ) -> Signal:
        """Claim that the items that enter leave once, in order and unchanged; return how many are inside.

        A free input chooses the watched item when it enters, so every item may be watched. The proof counts
        the items ahead of the watched item. When this count is 0, the item that is shown must be the watched
        item. If an item is lost, doubled, moved or altered, this fails for that item or an item behind it.

        Args:
            entrance: an item enters in this cycle; the item.
            way_out: an item is shown; it leaves in this cycle; the item.
            most: items that can be inside.
        """
        (entered, given), (shown, left, seen) = entrance, way_out
        inside, ahead = (Signal(range(most + 2), name=f"{name}_{part}") for part in ("inside", "ahead"))
        watches, item = Signal(name=f"{name}_watches"), Signal(len(given), name=f"{name}_item")
        m.d.sync += inside.eq(inside + entered - left)
        with m.If(entered & self.free(f"{name}_watch") & ~watches):
            m.d.sync += [watches.eq(1), ahead.eq(inside - left), item.eq(given)]
        with m.Elif(left & watches):
            m.d.sync += [ahead.eq(ahead - 1), watches.eq(ahead != 0)]
        oldest = watches & (ahead == 0) & shown
        self.claims |= {
            f"{name}: at most {most} inside": inside <= most,
            f"{name}: only what has entered is shown": implies(shown, inside != 0),
            f"{name}: in order, unchanged": implies(oldest, seen == item),
        }
        return inside

    def constant(self, m: Module, name: str, shape: ShapeLike = 1) -> Signal:
        """Return a signal that has any value, the same in all cycles since a reset."""
        value, chosen = Signal(shape, name=name), Signal(name=f"{name}_is_chosen")
        kept = Signal(shape, name=f"{name}_kept")
        m.d.comb += value.eq(Mux(chosen, kept, self.free(f"{name}_choice", shape)))
        m.d.sync += [chosen.eq(1), kept.eq(value)]
        return value


class ConfiguredProof(Proof):
    """A proof of a component of an accelerator.

    Parameters:
        config: the accelerator.
    """

    def __init__(self, config: AcceleratorConfig, only: str | None = None) -> None:
        super().__init__(only)
        self.config = config


def is_taken(offered: stream.Interface) -> Value:
    """Return whether an item of a stream is transferred in this cycle."""
    return offered.valid & offered.ready


def implies(condition: Value, conclusion: Value) -> Value:
    """Return whether `conclusion` holds where `condition` does."""
    return ~condition.bool() | conclusion.bool()
