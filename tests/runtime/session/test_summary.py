"""Summaries: shares, what crosses, what costs most, reasons by kind, and what is said about quantisation."""

import json
from dataclasses import replace

import pytest
from msgspec import structs

from tests.compiler.network.compiled import handmade
from tests.runtime.session.test_report import CLOCK, report_of
from vdla.hw.spec.target import ClockSource
from vdla.runtime.module.plan import Fidelity, HostStep, OutputNoise
from vdla.runtime.session.report import LayerReport
from vdla.runtime.session.summary import Cost, Reason, Summary, accuracy_rows, costly, reasons, summary_of

FINE = OutputNoise("boxes", 23.44)
LOST = OutputNoise("score", 3.2)
STUCK = OutputNoise("score", 60.0, constant=True)


def summary(title: str) -> Summary:
    return summary_of(handmade(title)[1], report_of(title)[0], CLOCK)


def layer(name: str, on: str, *, cycles=None, seconds=None, macs=0) -> LayerReport:
    return LayerReport(name, "Op", on, cycles, macs, None, 0, 0, seconds=seconds)


def test_what_crosses_is_what_launches_copy():
    plan = handmade("with the host between")[1]
    network_summary = summary("with the host between")
    assert network_summary.launches == len(plan.launches) == 2
    assert (
        network_summary.bytes_in
        == sum(crossing.layout.size for step in plan.launches for crossing in step.packs)
        > 0
    )
    assert (
        network_summary.bytes_out
        == sum(crossing.layout.size for step in plan.launches for crossing in step.unpacks)
        > 0
    )
    assert network_summary.host_operators == len(plan.host_steps)


def test_the_share_of_macs_counts_those_of_the_host():
    network_summary = replace(summary("residual"), macs=300, host_macs=100)
    assert network_summary.mac_share == 0.75
    assert "MACs         400, 75.0% of them on the accelerator" in str(network_summary)
    assert replace(network_summary, macs=0, host_macs=0).mac_share is None


def test_what_the_count_of_macs_leaves_out_is_told():
    steps = (
        HostStep("a", "OnnxRuntime", (), (), {}, "r", 7, ("Loop 'l' counted for one trip",)),
        HostStep("b", "OnnxRuntime", (), (), {}, "r", 7, tuple(f"If '{n}' not counted" for n in range(4))),
    )
    plan = handmade("residual")[1]
    network_summary = summary_of(replace(plan, steps=(*plan.steps, *steps)), report_of("residual")[0], CLOCK)
    assert network_summary.uncounted[0] == "Loop 'l' counted for one trip"
    assert (
        "on the host, Loop 'l' counted for one trip, If '0' not counted, If '1' not counted and 2 more\n"
        in str(network_summary)
    )
    assert "on the host, " not in str(summary("residual"))


def test_a_network_of_float16_says_what_its_inputs_are():
    plan = handmade("residual")[1]
    name, value = next(iter(plan.outputs.items()))
    half = replace(plan, outputs={name: structs.replace(value, dtype="float16")})
    network_summary = summary_of(half, report_of("residual")[0], CLOCK)
    assert f"the file's float16 runs as float32 or int8: inputs are float32, {name} float16\n" in str(
        network_summary
    )
    assert "types" not in str(summary("residual"))


def test_the_time_of_the_host_stands_apart_as_measured_on_this_machine():
    network_summary = replace(summary("residual"), seconds=0.06, host_seconds=0.03, copy_seconds=0.01)
    lines = str(network_summary).splitlines()
    measured = "operators 30.00 ms, copies 10.00 ms: measured on this machine, varies from run to run"
    assert lines[-1] == f"  host time    {measured}"
    assert not any("30.00 ms" in line for line in lines[:-1])
    assert "host time" not in str(replace(network_summary, host_seconds=None))


def test_a_run_measures_the_host():
    run_report, outcome = report_of("with the host between")
    measured = [layer.seconds for layer in run_report.layers if layer.on == "host"]
    assert measured == list(outcome.host_seconds)
    assert all(seconds > 0 for seconds in measured)
    assert run_report.host_seconds == sum(measured)
    assert 0 < run_report.host_seconds + run_report.copy_seconds < outcome.seconds


def test_layers_that_cost_most_are_ordered_by_cycles_whatever_the_host_took():
    layers = [
        layer("a", "accelerator", cycles=200, seconds=0.2),
        layer("b", "host", seconds=0.5, macs=1),
        layer("c", "accelerator", cycles=0, seconds=0.0),
        layer("d", "accelerator", cycles=600, seconds=0.6),
    ]
    costs = costly(layers)
    assert [(cost.name, cost.share) for cost in costs] == [("d", 0.75), ("a", 0.25)]
    assert costs[0] == Cost("d", "Op", "accelerator", 600, 0.6, 0, 0.75)
    assert costly(layers, 1) == costs[:1]


def test_without_cycles_those_that_multiply_most_cost_most():
    layers = [
        layer("a", "accelerator", macs=1),
        layer("b", "accelerator", macs=3),
        layer("c", "host", seconds=9),
    ]
    assert [(cost.name, cost.share) for cost in costly(layers)] == [("b", 0.75), ("a", 0.25)]


def test_like_reasons_are_told_once_with_their_count():
    steps = [
        HostStep("a", "Split", (), (), {}, "Split with a; it takes blocks"),
        HostStep("b", "Softmax", (), (), {}, "there is no Softmax"),
        HostStep("c", "Split", (), (), {}, "Split with b; it takes blocks"),
        HostStep("d", "Slice", (), (), {}, "Slice with c; it takes blocks"),
    ]
    first, second, third = reasons([*steps, HostStep("e", "Cast", (), (), {}, "")])
    assert (third.why, third.operators) == ("no reason is known", {"Cast": 1})
    assert (first.why, first.count, first.operators) == ("it takes blocks", 3, {"Split": 2, "Slice": 1})
    assert (second.why, second.count) == ("there is no Softmax", 1)


@pytest.mark.parametrize("title", ["residual", "with the host between", "only the host", "nothing"])
def test_a_summary_is_text_and_json(title):
    network_summary = summary(title)
    values = json.loads(json.dumps(network_summary.to_json()))
    assert values["cycles"] == network_summary.cycles
    assert "cycle_share" not in values
    titles = [line[2:15].strip() for line in str(network_summary).splitlines()[1:]]
    moved = ["roofline", "DRAM"] if network_summary.cycles else []
    further = [
        *moved,
        *["energy"] * bool(network_summary.energy_pj),
        *["mostly host"] * bool(network_summary.hindrance),
    ]
    assert titles[: 4 + len(further)] == ["MACs", "accelerator", *further, "host", "crossing"]
    assert titles.count("cost most") == bool(network_summary.costly)
    assert titles.count("why on host") == bool(network_summary.reasons)


def host(name: str, macs: int, reason: str) -> HostStep:
    return HostStep(name, "Int8Conv", (), (), {}, reason, macs)


@pytest.mark.parametrize(
    ("macs", "steps", "line"),
    [
        (0, [host("a", 70, "has 16 bits; use 32"), host("b", 20, "has 9 bits; use 32"), host("c", 10, "other")], "90.0% of the MACs: has 16 bits; use 32"),
        (49, [host("a", 1, "small"), host("b", 50, "no tile fits; use larger x")], "50.0% of the MACs: no tile fits; use larger x"),
        (51, [host("a", 49, "small")], ""),
        (50, [host("a", 50, "small")], ""),
        (0, [host("a", 50, "")], ""),
        (0, [host("a", 0, "one"), host("b", 0, "two; x"), host("c", 0, "three; x")], "2 operators: two; x"),
        (0, [], ""),
    ],
)  # fmt: skip
def test_where_most_work_runs_on_the_host_a_line_says_why(macs, steps, line):
    plan, run_report = handmade("residual")[1], report_of("residual")[0]
    kept = plan.steps if macs else ()
    ran = replace(run_report, macs=macs, host_macs=sum(step.macs for step in steps))
    summary = summary_of(replace(plan, steps=(*kept, *steps)), ran, CLOCK)
    assert summary.hindrance == line
    assert (f"mostly host  {line}" in str(summary)) == bool(line)


WHOLE = Summary(
    network="net",
    target="tiny",
    device="cycle",
    multipliers=1024,
    clock_hz=50e6,
    clock_source=ClockSource.GIVEN,
    macs=3_000_000,
    host_macs=1_000_000,
    cycles=100_000,
    seconds=2e-3,
    utilisation=0.25,
    energy_pj=2e9,
    energy={"a": 4e8, "b": 6e8, "c": 5e8, "d": 2e8, "e": 2e8, "f": 1e8},
    bytes_moved=3_000_000,
    bytes_once=2_000_000,
    roofline_cycles=90_000,
    launches=1,
    instructions=9,
    bytes_in=1023,
    bytes_out=1024,
    host_operators=1,
    host_seconds=9.99e-4,
    copy_seconds=1.5,
    costly=(
        Cost("large", "Int8Conv", "accelerator", 90, 1e-3, 10, 0.9),
        Cost("s", "Softmax", "host", None, None, 2_500_000, 0.055),
    ),
    reasons=(Reason("there is no Softmax", 3, {"Softmax": 1, "LogSoftmax": 2}),),
    hindrance="",
    uncounted=("one", "two", "three"),
    halves=(),
    runs=2,
    fidelity=None,
)
TEXT = """
net on tiny
  runs         2, one for each sample, 200,000 cycles in all; all figures below are for one run
  MACs         4.0 M, 75.0% of them on the accelerator
               on the host, one, two, three
  accelerator  1 launch, 100,000 cycles = 2.00 ms at 50 MHz (from --set, --clock or the target's file), 25.0% of 1,024 multipliers
  roofline     90,000 cycles, 90.0% reached: each layer bound by its MACs, or by the bus that moves its tensors once
  DRAM         3.0 MB read and written, 1.50 times the tensors of each layer
  energy       2.00 mJ: b 30.0%, c 25.0%, a 20.0%, d 10.0%, e 10.0%, 1 more
  host         1 operator
  crossing     1023 bytes to the accelerator, 1.0 KiB back
  cost most     90.0%     1.00 ms  large  Int8Conv on the accelerator
                 5.5%   2.50 MMAC  s      Softmax on the host
  why on host       3  there is no Softmax (Softmax, 2 LogSoftmax)
  accuracy     not judged: the file is quantised already, so there is no float network to compare it with
  host time    operators 0.999 ms, copies 1,500.00 ms: measured on this machine, varies from run to run
""".strip()


def test_a_summary_reads_as_written():
    assert str(WHOLE) == TEXT


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"cycles": None}, "runs         2, one for each sample; all figures below are for one run"),
        ({"launches": 0, "host_operators": 1}, "accelerator  nothing runs there\n"),
        (
            {"launches": 0, "host_operators": 0},
            "accelerator  nothing runs, nor on the host: outputs are inputs, or constants (as a scale of 0 makes "
            "them)",
        ),
        ({"launches": 2, "seconds": None}, "accelerator  2 launches; the device cycle counts no cycles, cycle does"),
        ({"cycles": None, "device": "functional"}, "accelerator  1 launch; the device functional counts no cycles, cycle does"),
        ({"utilisation": None}, "file), 0.0% of 1,024 multipliers"),
        ({"macs": 0, "host_macs": 0}, "MACs         none"),
        ({"macs": 99_949, "host_macs": 50}, "MACs         100.0 k, 99.9% of them"),
        ({"macs": 9_300, "host_macs": 0}, "MACs         9.3 k, 100.0% of them"),
        ({"macs": 999, "host_macs": 0}, "MACs         999, 100.0% of them"),
        ({"host_operators": 0}, "host         0 operators"),
        ({"energy": {"a": 1.5e9, "b": 5e8}}, "energy       2.00 mJ: a 75.0%, b 25.0%\n"),
        ({"energy": dict.fromkeys("abcde", 4e8)}, "a 20.0%, b 20.0%, c 20.0%, d 20.0%, e 20.0%\n"),
        ({"uncounted": ("1", "2", "3", "4")}, "on the host, 1, 2, 3 and 1 more\n"),
    ],
)  # fmt: skip
def test_a_line_of_a_summary_follows_its_figures(changes, line):
    assert line in str(replace(WHOLE, **changes))


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        ({"runs": 1}, "runs"),
        ({"cycles": None}, "roofline"),
        ({"roofline_cycles": None}, "roofline"),
        ({"bytes_once": 0}, "DRAM"),
        ({"energy_pj": 0.0}, "energy"),
        ({"energy_pj": None}, "energy"),
        ({"copy_seconds": None}, "host time"),
        ({"host_seconds": None}, "host time"),
        ({"launches": 0}, "accuracy"),
        ({"costly": ()}, "cost most"),
    ],
)
def test_a_summary_is_silent_about_what_there_is_not(changes, title):
    assert title in str(WHOLE)
    assert f"  {title} " not in str(replace(WHOLE, **changes))


def test_a_clock_that_is_not_the_target_s_is_told_as_given():
    plan, run_report = handmade("residual")[1], report_of("residual")[0]
    target = plan.target
    for clock, source in (
        (None, target.clock_source),
        (target.clock_hz, target.clock_source),
        (target.clock_hz + 1, ClockSource.GIVEN),
    ):
        summary = summary_of(plan, run_report, clock)
        assert (summary.clock_hz, summary.clock_source) == (clock or target.clock_hz, source)
    assert target.clock_source is not ClockSource.GIVEN


def test_layers_may_be_given_one_by_one():
    layers = [layer("a", "accelerator", cycles=1), layer("b", "accelerator", cycles=3)]
    assert costly(iter(layers)) == costly(layers)


def test_three_layers_are_told_unless_more_are_asked_for():
    layers = [layer(str(cycles), "accelerator", cycles=cycles) for cycles in (1, 4, 2, 5, 3)]
    assert [cost.name for cost in costly(layers)] == ["5", "4", "3"]
    assert [cost.name for cost in costly(layers, 9)] == ["5", "4", "3", "2", "1"]


@pytest.mark.parametrize(
    ("fidelity", "lines"),
    [
        (
            None,
            ["not judged: the file is quantised already, so there is no float network to compare it with"],
        ),
        (
            Fidelity(1, (FINE, OutputNoise("y", None)), 10),
            [
                "boxes   23.4 dB",
                "y         exact",
                "signal to quantisation noise of the outputs, on 1 sample",
            ],
        ),
        (
            Fidelity(8, (FINE, LOST), None, costly=("Conv_0", "Conv_2")),
            [
                "score    3.2 dB  LOST: below 10 dB",
                "boxes   23.4 dB",
                "signal to quantisation noise of the outputs, on 8 samples",
                "Conv_0, Conv_2 cost most; a higher --quality keeps such layers in float, --errors shows all",
            ],
        ),
        (
            Fidelity(8, (STUCK,), None),
            [
                "score   60.0 dB  LOST: the same on all samples, and not in float",
                "signal to quantisation noise of the outputs, on 8 samples",
            ],
        ),
        (
            Fidelity(8, (FINE,), 20, tuple("abcdef"), ("g",), -1.5),
            [
                "boxes   23.4 dB",
                "signal to quantisation noise of the outputs, on 8 samples",
                "in float for 20 dB, -1.5 dB without: a, b, c, d and 2 more",
                "in float by choice: g",
            ],
        ),
        (
            Fidelity(8, (OutputNoise("n", None, measure="none"), OutputNoise("c", 10, measure="equal")), 10),
            [
                "c  90.0% of the elements equal",
                "n  not judged: its shape depends on the data",
                "signal to quantisation noise of the outputs, on 8 samples",
            ],
        ),
        (
            Fidelity(8, tuple(OutputNoise(name, 20 + place) for place, name in enumerate("abcdef")), 10),
            [
                *(f"{name}   {20 + place}.0 dB" for place, name in enumerate("abcd")),
                "and 2 outputs with less noise",
                "signal to quantisation noise of the outputs, on 8 samples",
            ],
        ),
    ],
)
def test_each_output_has_its_signal_to_noise_the_worst_first(fidelity, lines):
    assert list(accuracy_rows(fidelity)) == lines


def test_outputs_that_lost_their_meaning_are_below_10_db_or_constant():
    assert [output.is_lost for output in (FINE, LOST, STUCK)] == [False, True, True]


def test_the_summary_has_the_lines_and_json_the_numbers():
    network_summary = replace(summary("residual"), fidelity=Fidelity(8, (FINE,), 10))
    assert "  accuracy     boxes   23.4 dB" in str(network_summary).splitlines()
    values = json.loads(json.dumps(network_summary.to_json(), allow_nan=False))["fidelity"]
    assert values["outputs"] == [
        {"output": "boxes", "decibels": 23.44, "constant": False, "measure": "power"}
    ]
    assert summary("residual").to_json()["fidelity"] is None


def test_nothing_is_said_where_nothing_runs_on_the_accelerator():
    assert "accuracy" not in str(replace(summary("residual"), launches=0))


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "a"),
        (4, "a, b, c, d"),
        (5, "a, b, c, d, e"),
        (6, "a, b, c, d and 2 more"),
        (9, "a, b, c, d and 5 more"),
    ],
)
def test_a_name_more_than_four_is_told_and_several_are_counted(count, text):
    fidelity = Fidelity(8, (), None, chosen=tuple("abcdefghi"[:count]))
    assert list(accuracy_rows(fidelity))[1:] == [f"in float by choice: {text}"]


@pytest.mark.parametrize("count", [4, 5])
def test_four_outputs_are_told_and_the_others_are_counted(count):
    outputs = tuple(OutputNoise(name, 20 + place) for place, name in enumerate("abcde"[:count]))
    rows = list(accuracy_rows(Fidelity(1, outputs, None)))
    assert [row[0] for row in rows[:4]] == [*"abcd"]
    assert rows[4:] == [
        *["and 1 outputs with less noise"] * (count - 4),
        "signal to quantisation noise of the outputs, on 1 sample",
    ]
