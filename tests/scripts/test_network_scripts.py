"""What the scripts for networks print and decide: the digit as text, tables, verdicts, differences."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from vdla.explore.silicon.estimate import silicon_of
from vdla.hw.spec.presets import TINY
from vdla.runtime.module.plan import Value, random_inputs
from vdla.runtime.session.report import LayerReport, Report


@pytest.fixture(scope="module")
def bench(script, on_one_thread):
    """Return scripts/bench_network.py."""
    return script("bench_network")


# A digit as text


def test_ink_is_darker_than_paper_and_two_characters_wide(script):
    assert script("digit_text").drawn(np.array([[0, 1], [0.5, 0]], np.float32)) == ["  @@", "==  "]


def test_bars_are_as_long_as_scores_and_mark_the_greatest(script):
    lines = script("digit_text").bars(np.array([-3, 2, 4], np.float32))
    assert lines == ["0    -3.00 ", f"1     2.00 {'#' * 15}", f"2     4.00 {'#' * 30} <"]


def test_bars_stand_for_scores_that_are_all_below_zero(script):
    assert script("digit_text").bars(np.array([-3, -2], np.float32)) == ["0    -3.00 ", "1    -2.00  <"]


@pytest.mark.parametrize("right", [["a"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"]])
def test_blocks_side_by_side_keep_every_line(script, right):
    lines = script("digit_text").beside(["xy"], right)
    assert [line[-1] for line in lines] == right
    assert [line[1:3] for line in lines].count("xy") == 1
    assert lines[(len(right) - 1) // 2].startswith("|xy|")


# Presets


def test_milliseconds_are_cycles_at_the_clock(script):
    presets = script("bench_presets")
    assert presets.line("small", ("50.0", 50.0), "resnet18", 36_000_000, 30_000_000).split() == [
        *("small", "50.0", "resnet18", "36,000,000", "30,000,000", "1.20", "720.0", "600.0")
    ]
    assert presets.line("zynq-7020", ("-", None), "resnet18", 2000, 1000).split()[-2:] == ["-", "-"]


def test_an_estimated_clock_is_marked(script):
    presets = script("bench_presets")
    routed, estimated = TINY, TINY.with_changes(token_depth=7)
    assert presets.clock_of(routed) == (f"{silicon_of(routed).mhz:.1f}", silicon_of(routed).mhz)
    assert presets.clock_of(estimated)[0] == f"~{silicon_of(estimated).mhz:.1f}"


# The demonstration


@pytest.mark.parametrize(
    ("exact", "reached", "problem"),
    [
        (0.98, 0.97, ""),
        (0.96, 0.95, ""),
        (0.97, 0.99, ""),
        (0.95, 0.949, "int8 is right on 94.90% of the digits; at least 95% was expected"),
        (
            0.99,
            0.9799,
            "int8 is right on 97.99% of the digits and float on 99.00%; at most 1 point less was expected",
        ),
    ],
)
def test_an_accuracy_that_is_too_low_is_named(script, exact, reached, problem):
    assert script("demo").shortfall(exact, reached) == problem


def test_accuracy_is_the_share_of_right_answers(script):
    assert script("demo").accuracy(np.eye(4, dtype=np.float32), np.array([0, 1, 2, 0])) == 0.75


def test_layers_are_listed_with_their_time_and_the_host_without(script):
    layers = (
        LayerReport("q", "QuantizeLinear", "host", None, 0, None, 0, 0),
        LayerReport("r", "Reshape", "accelerator", 0, 0, None, 0, 0),
        LayerReport("c", "Int8Conv", "accelerator", 250, 100, 0.5, 1, 1),
    )
    lines = script("demo").layer_lines(Report("cycle", 250, 2.5e-6, 100, 0.5, 1e6, layers))
    assert [line.split() for line in lines[1:]] == [
        ["q", "QuantizeLinear", "host"],
        ["c", "Int8Conv", "250", "2.50", "50.0%"],
        ["all", "250", "2.50", "50.0%"],
    ]


# The benchmark


@pytest.fixture(scope="module")
def figures(bench):
    """Return figures that meet every requirement, all of them at the limit."""
    seconds = {
        bench.BASE: 0.5,
        bench.FASTEST: 0.25,
        bench.FUNCTIONAL: 1.0,
        bench.CYCLE: 10.0,
        bench.REPORTED: 10.0,
        bench.TIMING: 2.5,
    }
    return bench.Figures(20.0, 9_000_000, 0.8, ("QuantizeLinear", "Softmax"), seconds, True, True)


def test_figures_at_the_limits_are_enough(bench, figures):
    assert all(bench.judge(figures).values())


@pytest.mark.parametrize(
    ("change", "missed"),
    [
        ({"equal": False}, "outputs of both devices"),
        ({"same_answer": False}, "outputs of both devices"),
        ({"cycles": 9_000_001}, "at most 9.0 M cycles"),
        ({"host_nodes": ("a", "b", "c")}, "at most 2 nodes"),
        ({"compile_seconds": 20.1}, "compiled within 20 s"),
        ({"seconds": ("CYCLE", 10.1)}, "cycle device at most 20 times"),
        ({"seconds": ("REPORTED", 10.1)}, "cycle device, by layers at most 20 times"),
        ({"seconds": ("TIMING", 2.6)}, "timing alone at most 5 times"),
    ],
)
def test_a_missed_requirement_is_the_only_one_short(bench, figures, change, missed):
    if "seconds" in change:
        name, seconds = change["seconds"]
        change = {"seconds": figures.seconds | {getattr(bench, name): seconds}}
    short = [text for text, met in bench.judge(replace(figures, **change)).items() if not met]
    assert len(short) == 1
    assert short[0].startswith(missed)


def test_the_table_has_a_line_for_each_run_and_each_requirement(bench, figures):
    lines = list(bench.table(replace(figures, cycles=10_000_000)))
    assert [line.split()[-4:] for line in lines[1:7]] == [
        ["500.00", "1.00", "2.00", "-"],
        ["250.00", "0.50", "1.00", "-"],
        ["1000.00", "2.00", "4.00", "-"],
        ["10000.00", "20.00", "40.00", "1.0"],
        ["10000.00", "20.00", "40.00", "1.0"],
        ["2500.00", "5.00", "10.00", "4.0"],
    ]
    assert [line.split()[0] for line in lines if line.startswith(("ok", "SHORT"))] == [
        "ok",
        "SHORT",
        *["ok"] * 5,
    ]


def test_works_run_in_turn_and_the_first_round_does_not_count(bench):
    ran = []
    times = bench.best({"one": lambda: ran.append(1), "other": lambda: ran.append(2)}, rounds=2)
    assert ran == [1, 2] * 3
    assert set(times) == {"one", "other"}


# On the RTL


def outcome(values: list[int], *cycles: int) -> SimpleNamespace:
    """Return what a run gave: one output, and the cycles of its launches."""
    launches = [
        SimpleNamespace(step=SimpleNamespace(stream=f"launch{number}"), result=SimpleNamespace(cycles=count))
        for number, count in enumerate(cycles)
    ]
    return SimpleNamespace(outputs={"scores": np.array(values)}, launches=launches)


@pytest.mark.parametrize(
    ("other", "found"),
    [
        (outcome([1, 2], 10, 2000), []),
        (outcome([1, 3], 10, 2000), ["output scores differs in 1 of 2 elements"]),
        (outcome([1, 2], 10, 2001), ["launch1 takes 2,000 cycles here and 2,001 there"]),
        (
            outcome([1, 2], 9, 2001),
            ["launch0 takes 10 cycles here and 9 there", "launch1 takes 2,000 cycles here and 2,001 there"],
        ),
    ],
)
def test_differences_between_two_runs_are_told(script, other, found):
    assert list(script("run_on_rtl").differences(outcome([1, 2], 10, 2000), other)) == found


# Inputs


def test_random_inputs_have_their_types_and_are_the_same_for_a_seed():
    wanted = {"image": Value((1, 3), "float32"), "words": Value((2,), "int64")}
    inputs, again, other = random_inputs(wanted), random_inputs(wanted), random_inputs(wanted, seed=1)
    assert {name: Value(array.shape, str(array.dtype)) for name, array in inputs.items()} == wanted
    assert all(np.array_equal(inputs[name], again[name]) for name in wanted)
    assert not np.array_equal(inputs["image"], other["image"])
