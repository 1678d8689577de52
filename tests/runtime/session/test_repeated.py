"""Runs on several samples: outputs are joined where the samples stood, host times are means, launches once."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from vdla.runtime.module.plan import State, Value
from vdla.runtime.samples import InputError
from vdla.runtime.samples.fit import Along, Fitted
from vdla.runtime.session.repeated import joined, run_each
from vdla.runtime.session.session import Outcome


@dataclass
class Doubling:
    """A session whose output is twice its input; each run takes a second longer than the run before."""

    plan = SimpleNamespace(states={}, results={"y": Value((1, 2), "float64")})
    seen: list = field(default_factory=list)

    def run(self, inputs, progress=None):
        self.seen.append(inputs["x"])
        seconds = float(len(self.seen))
        return Outcome(
            {"y": 2 * inputs["x"]}, (f"launch {len(self.seen)}",), seconds, (seconds,), 10 * seconds
        )


def fitted(along: Along, *values: float) -> Fitted:
    return Fitted(tuple({"x": np.full((1, 2), value)} for value in values), along)


def test_a_single_sample_is_run_once_and_its_outputs_stay_as_they_are():
    outcome = run_each(Doubling(), fitted(Along.ALONE, 3))
    assert outcome.outputs["y"].tolist() == [[6, 6]]
    assert (outcome.runs, outcome.seconds) == (1, 1.0)


def test_several_samples_are_joined_wherever_they_stood():
    assert run_each(Doubling(), fitted(Along.ALONE, 3, 4)).outputs["y"].tolist() == [[[6, 6]], [[8, 8]]]


@pytest.mark.parametrize(("along", "shape"), [(Along.BATCH, (1, 2)), (Along.STACK, (1, 1, 2))])
def test_one_sample_of_a_list_is_joined_as_several_are(along, shape):
    assert run_each(Doubling(), fitted(along, 3)).outputs["y"].shape == shape


def test_several_samples_are_run_in_order():
    session = Doubling()
    outcome = run_each(session, fitted(Along.BATCH, 1, 2, 3))
    assert [array[0, 0] for array in session.seen] == [1, 2, 3]
    assert outcome.outputs["y"].tolist() == [[2, 2], [4, 4], [6, 6]]
    assert outcome.launches == ("launch 1",)
    assert (outcome.runs, outcome.seconds, outcome.host_seconds, outcome.copy_seconds) == (
        3,
        6.0,
        (2.0,),
        20.0,
    )


@pytest.mark.parametrize(
    ("along", "shape", "expected"),
    [
        (Along.BATCH, (1, 3), (2, 3)),
        (Along.STACK, (1, 3), (2, 1, 3)),
        (Along.ALONE, (1, 3), (2, 1, 3)),
        (Along.BATCH, (2, 3), (2, 2, 3)),
        (Along.BATCH, (), (2,)),
    ],
)
def test_outputs_are_joined_along_a_batch_of_1_and_stacked_otherwise(along, shape, expected):
    runs = [{"y": np.full(shape, number)} for number in range(2)]
    output = joined(runs, along)["y"]
    assert output.shape == expected
    assert output[0].max() == 0
    assert output[1].min() == 1


def test_outputs_of_unlike_shapes_cannot_be_joined():
    with pytest.raises(InputError, match="output y has another shape in each run"):
        joined([{"y": np.zeros(2)}, {"y": np.zeros(3)}], Along.BATCH)


@dataclass
class Counting(Doubling):
    """A session whose output adds its input to a state."""

    plan = SimpleNamespace(
        states={"total": State("sum")},
        inputs={"x": Value((1, 2), "float64"), "total": Value((1, 2), "float64")},
        results={"y": Value((1, 2), "float64")},
    )

    def run(self, inputs, progress=None):
        total = inputs["x"] + inputs["total"]
        return Outcome({"y": total, "sum": total}, ("launch",), 1.0, (1.0,), 1.0)


def test_a_run_hands_its_states_to_the_next():
    outcome = run_each(Counting(), fitted(Along.BATCH, 1, 2, 3))
    assert {name: array[:, 0].tolist() for name, array in outcome.outputs.items()} == {"y": [1, 3, 6]}
    assert outcome.states["total"].tolist() == [[6, 6]]


def test_the_first_run_takes_the_states_that_are_given():
    outcome = run_each(Counting(), fitted(Along.ALONE, 1), states={"total": np.full((1, 2), 9.0)})
    assert outcome.outputs["y"].tolist() == [[10, 10]]
    assert outcome.states["total"].tolist() == [[10, 10]]
