"""Which task is searched next."""

import pytest

from vdla.explore.tune.gain import Standing, next_of


def standing(best=150, default=200, bound=100, times=1, history=(), **more):
    return Standing(["layer"] * times, default, bound, best, history=list(history), **more)


def test_a_task_at_its_bound_or_exhausted_gets_nothing():
    done = [standing(best=100), standing(exhausted=True), standing(best=90)]
    assert [task_standing.expected for task_standing in done] == [0, 0, 0]
    assert next_of(done) is None
    assert next_of([]) is None
    assert next_of([*done, standing(best=101)]) == 3


@pytest.mark.parametrize(
    ("less", "more"),
    [
        (standing(), standing(times=2)),  # what occurs more often
        (standing(), standing(best=180)),  # what is farther from its bound
        (standing(history=[150]), standing()),  # what was searched less
        (standing(history=[150, 150]), standing(history=[170, 160])),  # what improved lately
        (standing(history=[190, 150, 150, 150]), standing(history=[190, 190, 160, 155])),
    ],
)
def test_the_task_that_promises_most_is_next(less, more):
    assert less.expected < more.expected
    assert next_of([less, more, less]) == 1
    assert next_of([more, more]) == 0


def test_a_task_is_called_by_its_layers():
    assert Standing(["a"], 1, 1, 1).name == "a"
    assert Standing(["a", "b", "c"], 1, 1, 1).name == "a and 2 more"


@pytest.mark.parametrize(
    ("history", "rate"),
    [
        ((), 1 / 2),
        ((200,), 1 / 3 + 50 / 100),
        ((200, 150), 1 / 4 + 50 / 100 / 2),
        ((200, 180, 160, 150), 1 / 6 + 30 / 80 / 3),  # the last three count
        ((150, 150, 150), 1 / 5),
    ],
)
def test_the_rate_is_a_fading_hope_and_the_share_of_the_gap_that_recent_batches_closed(history, rate):
    task_standing = standing(history=history, times=3)
    assert task_standing.rate == pytest.approx(rate)
    assert task_standing.expected == pytest.approx(3 * 50 * rate)
