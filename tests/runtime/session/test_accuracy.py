"""What a summary says about quantisation."""

import json
from dataclasses import replace

import pytest

from tests.runtime.session.test_summary import summary
from vdla.runtime.module.plan import Fidelity, OutputNoise
from vdla.runtime.session.accuracy import accuracy_rows

FINE = OutputNoise("boxes", 23.44)
LOST = OutputNoise("score", 3.2)
STUCK = OutputNoise("score", 60.0, constant=True)


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
    assert [one.is_lost for one in (FINE, LOST, STUCK)] == [False, True, True]


def test_the_summary_has_the_lines_and_json_the_numbers():
    found = replace(summary("residual"), fidelity=Fidelity(8, (FINE,), 10))
    assert "  accuracy     boxes   23.4 dB" in str(found).splitlines()
    values = json.loads(json.dumps(found.to_json(), allow_nan=False))["fidelity"]
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
