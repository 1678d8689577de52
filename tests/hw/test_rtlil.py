"""RTLIL of a small design: its top, where modules come from, memories, and operands of equal widths."""

import gc
import re

import pytest
from amaranth.hdl import Module, signed
from amaranth.lib import wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from vdla.hw.queue import Queue
from vdla.hw.rtlil import rtlil_of

QUEUE_PLACES = 40


class Sample(wiring.Component):
    """A component with every construct that the RTLIL writer handles itself."""

    index: In(2)
    narrow: In(3)
    wide: In(9)
    negative: In(signed(9))
    part: Out(2)
    signed_part: Out(2)
    whole_part: Out(3)
    total: Out(10)
    product: Out(12)
    entry: Out(4)
    first: Out(8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Queue(16, QUEUE_PLACES)
        m.submodules.table = table = Memory(shape=4, depth=3, init=[5, 0, 9])
        read = table.read_port()
        m.d.comb += [
            self.part.eq(self.wide.bit_select(self.index, 2)),
            self.signed_part.eq(self.negative.bit_select(self.index, 2)),
            self.whole_part.eq(self.narrow.bit_select(self.index, 3)),
            self.total.eq(self.narrow + self.wide),
            self.product.eq(self.narrow * self.wide),
            read.addr.eq(self.index),
            self.entry.eq(read.data),
            queue.i.payload.eq(self.wide),
            queue.i.valid.eq(1),
            self.first.eq(queue.o.payload),
        ]
        return m


@pytest.fixture(scope="module")
def design():
    return rtlil_of(Sample(), "sample")


def cells(text: str, kind: str) -> list[dict[str, str]]:
    """Return the parameters and connections of each cell of a kind, by their names."""
    bodies = re.findall(rf"^  cell \${kind} \S+\n(.*?)^  end", text, re.MULTILINE | re.DOTALL)
    return [dict(re.findall(r"(?:parameter|connect) \\(\w+) (.*)", body)) for body in bodies]


def test_only_the_module_of_the_given_name_is_the_top(design):
    assert re.findall(r"attribute \\top 1\nmodule \\(\S+)", design.text) == ["sample"]
    assert design.text.count("\\top") == 1
    assert set(re.findall(r"^module \\(\S+)", design.text, re.MULTILINE)) == {"sample", "sample.queue"}


def test_modules_of_the_package_are_told_from_others(design):
    assert design.sources.keys() == {"sample.queue"}
    assert re.fullmatch(r"Queue, vdla/hw/queue\.py:\d+", design.sources["sample.queue"])


def test_ports_have_their_directions(design):
    top = design.text.partition("end\n\n")[0]
    directions = {name: way for way, name in re.findall(r"(input|output) \d+ +(?:signed +)?\\(\S+)", top)}
    assert {directions[name] for name in ("index", "narrow", "wide", "negative", "clk", "rst")} == {"input"}
    assert {directions[name] for name in ("part", "total", "product", "entry", "first")} == {"output"}


def test_only_memories_that_do_not_start_as_zeros_have_contents(design):
    (contents,) = cells(design.text, "meminit_v2")
    assert (contents["WORDS"], contents["DATA"]) == ("3", "12'100100000101")
    assert len(re.findall(r"^  memory .*", design.text, re.MULTILINE)) == 2


def test_operands_are_as_wide_as_their_operator_but_factors_as_wide_as_they_are(design):
    sums = [cell for cell in cells(design.text, "add") if "\\narrow" in cell["A"]]
    assert [(cell["A_WIDTH"], cell["B_WIDTH"], cell["Y_WIDTH"]) for cell in sums] == [("10", "10", "10")]
    (product,) = [cell for cell in cells(design.text, "mul") if "\\narrow" in cell["A"]]
    assert (product["A_WIDTH"], product["B_WIDTH"], product["Y_WIDTH"]) == ("3", "9", "12")


def test_a_part_is_cut_from_the_whole_shifted_value_but_where_it_is_signed_or_whole(design):
    shifts = [*cells(design.text, "shift"), *cells(design.text, "shiftx")]
    shapes = {(cell["A"].split()[0], cell["A_WIDTH"], cell["Y_WIDTH"]) for cell in shifts}
    assert shapes == {("\\wide", "9", "9"), ("\\negative", "9", "2"), ("\\narrow", "3", "3")}
    (wide,) = [cell for cell in shifts if cell["A"].startswith("\\wide")]
    assert f"connect \\part {wide['Y']} [1:0]" in design.text


@pytest.mark.parametrize("before", [True, False])
def test_garbage_is_collected_afterwards_as_before(before):
    (gc.enable if before else gc.disable)()
    try:
        seen = []

        class Looks(Sample):
            def elaborate(self, platform):
                seen.append(gc.isenabled())
                return super().elaborate(platform)

        rtlil_of(Looks(), "looks")
        assert (seen, gc.isenabled()) == ([False], before)
        with pytest.raises(TypeError, match="Only signals"):
            rtlil_of(Sample(), "sample", {"none": (object(), None)})
        assert gc.isenabled() == before
    finally:
        gc.enable()
