"""The account of a network: its figures agree with a report, and its parts add up."""

import pytest

import vdla
from tests.cli.models import model
from vdla.hw.spec.presets import TINY
from vdla.runtime.module.plan import random_inputs


@pytest.fixture(scope="module")
def account(script):
    """Return scripts/account_cycles.py."""
    return script("account_cycles")


def test_a_line_has_the_figures_of_a_report(account):
    module = vdla.compile(model().SerializeToString(), TINY)
    report = module.run(random_inputs(module.plan.inputs), device="cycle").report
    name, ideal, roofline, cycles, reached, *bounds, moved, once = account.line("net", report, TINY).split()
    assert len(account.TITLES.split()) == 7 + len(bounds) + 1  # "MB once" is a title of two words
    assert name == "net"
    assert (ideal, roofline) == (f"{report.macs / 16e3:,.0f}", f"{report.roofline_cycles / 1e3:,.0f}")
    assert cycles == f"{report.cycles / 1e3:,.0f}"
    assert reached == f"{report.roofline_cycles / report.cycles:.1%}"
    assert sum(map(int, bounds)) == pytest.approx(report.cycles / 1e3, abs=2)
    assert (moved, once) == (f"{report.bytes_moved / 1e6:.1f}", f"{report.bytes_once / 1e6:.1f}")
