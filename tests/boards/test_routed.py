"""What is read from nextpnr's report."""

import pytest

from tests.boards.fakes import report
from vdla.boards.build import HEADROOM, read_routed, with_headroom


def test_the_system_clock_is_the_clock_with_the_least_room():
    routed = read_routed(report(71.5, 70.0))
    assert (routed.mhz, routed.mhz_asked, routed.met) == (71.5, 70.0, True)
    assert not read_routed(report(69.9, 70.0)).met


def test_the_slowest_path_is_named_by_its_ends_with_its_delay():
    assert read_routed(report(60.0, 70.0)).slowest == (
        "vdla_axi.top.core.control.run to sdram.bank, 12.00 ns (11.25 of wire), through "
        "vdla_axi.top.core.control.run, vdla_axi.top.core.dma.sum"
    )


def test_a_design_without_a_path_between_registers_says_so():
    of_pins = report(60.0, 70.0)
    del of_pins["critical_paths"][1]
    assert read_routed(of_pins).slowest == "none between registers of $glbnet$sys_clk"


@pytest.mark.parametrize(("resource", "used", "there"), [("lut", 14495, 83640), ("dsp", 70, 156)])
def test_utilisation_is_that_of_the_report(resource, used, there):
    routed = read_routed(report(60.0, 70.0))
    assert (routed.used[resource], routed.device[resource]) == (used, there)


def test_clocks_at_pins_get_headroom_and_nothing_else_changes():
    pins = 'LOCATE COMP "clk25" SITE "G2";\nFREQUENCY PORT "clk25" 25.0 MHz;\nFREQUENCY PORT "eth" 50 MHz;\n'
    assert with_headroom(pins) == (
        'LOCATE COMP "clk25" SITE "G2";\nFREQUENCY PORT "clk25" 25.500000 MHz;\n'
        'FREQUENCY PORT "eth" 51.000000 MHz;\n'
    )


def test_the_timing_is_met_without_the_headroom():
    assert HEADROOM == 1.02
    given = report(70.5, 70.0)
    assert given["fmax"]["$glbnet$sys_clk"]["constraint"] == pytest.approx(71.4)
    assert read_routed(given).met
