"""`vdla timing`: what it prints, and the slack against the target's clock."""

import json
from dataclasses import asdict

import pytest
from click.testing import CliRunner

from vdla.cli import main
from vdla.explore.silicon import clock, routing
from vdla.explore.silicon.clock import estimated_clock
from vdla.explore.silicon.routing import Clock, UnitPath
from vdla.hw.spec.presets import TINY

OTHER = TINY.with_changes(token_depth=7)
PATH = UnitPath("fetch.cutter/address", "control/quiet_cycles", ("fetch.cutter", "dma", "control"), 24.0)
MHZ = {1: 40.0, 2: 50.0, 3: 45.0}


@pytest.fixture(autouse=True)
def routed(monkeypatch):
    """Replace placement and routing by a table."""
    monkeypatch.setattr(routing, "clock_of", lambda config, seed, tell: Clock(MHZ[seed], seed, (PATH,)))


def run(*arguments: str) -> str:
    done = CliRunner().invoke(main, ["timing", "--config", "tiny", *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_clock_slack_and_worst_path_are_printed():
    assert run() == (
        "tiny on ecp5: 40.0 MHz, slack -15.00 ns at 100 MHz\n"
        "  24.00 ns, slack  -14.00: fetch.cutter/address to control/quiet_cycles\n"
        "            through fetch.cutter, dma, control\n"
    )


def test_the_fastest_seed_is_shown_with_the_spread():
    assert run("--seeds", "3").startswith(
        "tiny on ecp5: 50.0 MHz (seed 2; 40.0 to 50.0 MHz over 3 seeds), slack -10.00 ns at 100 MHz\n"
    )


def test_slack_is_against_the_clock_of_the_target():
    shown = json.loads(run("--json", "--set", "clock_mhz=20"))
    assert (shown["mhz"], shown["asked_mhz"], shown["slack_ns"]) == (40.0, 20.0, 25.0)
    assert shown["paths"] == [
        {
            "start": "fetch.cutter/address",
            "end": "control/quiet_cycles",
            "units": ["fetch.cutter", "dma", "control"],
            "ns": 24.0,
            "slack_ns": 26.0,
        }
    ]


def test_an_estimate_names_its_interval_and_its_limit_and_routes_nothing(monkeypatch):
    monkeypatch.setattr(routing, "clock_of", None)
    guess = estimated_clock(OTHER, "ecp5")
    setting = ("--set", f"token_depth={OTHER.token_depth}")
    assert run("--estimate", *setting) == (
        f"tiny on ecp5: {guess.mhz:.1f} MHz estimated ({guess.low:.1f} to {guess.high:.1f}), "
        f"limited by {guess.limited_by}\n"
    )
    assert json.loads(run("--estimate", "--json", *setting)) == {
        "config": "tiny",
        "digest": OTHER.digest,
        "target": "ecp5",
        **asdict(guess),
    }
    assert "the core is larger than every routed design" in run("--estimate", "--set", "block_out=64")


def test_without_routed_designs_nothing_is_estimated(monkeypatch):
    monkeypatch.setattr(clock, "routed_designs", lambda family: ())
    done = CliRunner().invoke(main, ["timing", "--config", "tiny", "--estimate"])
    assert done.exit_code == 2
    assert "holds too few routed designs" in done.stderr


def test_a_family_without_an_open_router_is_refused():
    done = CliRunner().invoke(main, ["timing", "--target", "xc7"])
    assert done.exit_code == 2
    assert "'xc7' is not 'ecp5'" in done.stderr
