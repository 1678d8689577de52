"""Every component of whole designs: its ports are as wide as what they carry, and its registers, memories and
logic have the bits that `sizes.json` says.

Stored areas rest on these bits; and an extension that is off costs none. Who changes them runs
`make recorded`, which writes that file, and reads in the difference what the change costs.
"""

import json
from pathlib import Path

import pytest
from amaranth.hdl import Fragment, Module
from amaranth.lib import wiring

from tests.hw.ports import IDLE, idle_ports
from tests.hw.sizes import sizes
from tests.recorded import write
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
PACKED = TINY.with_changes(
    name="packed",
    packed=18,
    bus_bits=256,
    block_in=8,
    gemm_stages=4,
    alu_lanes=2,
    alu_stages=1,
    acc_ports=2,
    requantise_lanes=2,
)
BARE = TINY.with_changes(
    name="bare",
    extensions=(),
    alu_opcodes=(),
    batch=2,
    inp_bits=4,
    wgt_bits=2,
    acc_bits=16,
    gemm_stages=1,
    max_requests=3,
)
SLIDING = TINY.with_changes(name="rows of windows", extensions=tuple(Extension), block_in=8, block_out=8)
CONFIGS = (TINY, EVERYTHING, PACKED, BARE, SLIDING)
FILE = Path(__file__).with_name("sizes.json")
Parts = dict[str, wiring.Component]


def designs() -> dict[str, Fragment]:
    """Return the designs by the names of their configurations."""
    return {config.name: Fragment.get(AxiTop(config), None) for config in CONFIGS}


@pytest.fixture(scope="module")
def whole() -> tuple[dict[str, Fragment], Parts]:
    """Return the designs, and a component of every class of them by the name of the class."""
    components: dict[str, wiring.Component] = {}
    original = wiring.Component.__init__

    def noted(self, *arguments, **named):
        components.setdefault(type(self).__name__, self)
        original(self, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wiring.Component, "__init__", noted)
        fragments = designs()
    return fragments, {
        name: part for name, part in components.items() if type(part).__module__.startswith("vdla.")
    }


@pytest.fixture(scope="module")
def parts(whole) -> Parts:
    return whole[1]


@pytest.mark.parametrize("name", [config.name for config in CONFIGS])
def test_components_have_the_sizes_that_are_written_down(whole, name):
    expected, actual = json.loads(FILE.read_text())[name], sizes(whole[0][name])
    assert {part: bits for part, bits in actual.items() if bits != expected.get(part)} == {}
    assert actual.keys() == expected.keys()


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


if __name__ == "__main__":
    write(FILE, {name: sizes(design) for name, design in designs().items()})
