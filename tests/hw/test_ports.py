"""Ports are as wide as what they carry: of every component of a whole design, with and without extensions."""

import pytest
from amaranth.hdl import Fragment, Module
from amaranth.lib import wiring

from tests.hw.ports import IDLE, idle_ports
from vdla.hw.axi import AxiTop
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import Extension

EVERYTHING = TINY.with_changes(
    name="everything",
    extensions=tuple(Extension),
    batch=2,
    acc_ports=2,
    axi_address_bits=32,
    inp_buffer_bytes=4096,
)


@pytest.fixture(scope="module")
def parts() -> dict[str, wiring.Component]:
    """Return a component of every class of both designs, by the name of the class."""
    found: dict[str, wiring.Component] = {}
    original = wiring.Component.__init__

    def noted(self, *arguments, **named):
        found.setdefault(type(self).__name__, self)
        original(self, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wiring.Component, "__init__", noted)
        for config in (TINY, EVERYTHING):
            Fragment.get(AxiTop(config), None)
    return {name: part for name, part in found.items() if type(part).__module__.startswith("vdla.")}


def test_no_port_has_a_bit_that_is_never_read_or_never_driven(parts):
    assert {name: idle for name, part in parts.items() if (idle := idle_ports(part))} == {}


def test_every_component_is_looked_at(parts):
    known = [form for form in wiring.Component.__subclasses__() if form.__module__.startswith("vdla.hw.")]
    assert parts.keys() == {form.__name__ for form in known} >= IDLE.keys()


class Wide(wiring.Component):
    """A component with a bit too many on each port."""

    flag: wiring.In(2)
    taken: wiring.Out(3)
    fits: wiring.Out(1)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.taken.eq(self.flag[0]), self.fits.eq(self.flag[0])]
        return m


def test_a_bit_too_many_is_noticed():
    assert idle_ports(Wide()) == {"flag", "taken"}
