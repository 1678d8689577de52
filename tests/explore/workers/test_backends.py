"""Workers: every thing has one result, whatever dies."""

import os
import signal

import pytest

from tests.explore.workers.jobs import DEADLY, Doubling, Unreadable
from vdla.explore.workers.backends import Pool, backend_of, ended, here
from vdla.explore.workers.job import WorkerError


def test_every_thing_has_its_result_and_workers_stay():
    with backend_of(2, None, 1000)(Doubling()) as pool:
        first = list(pool.measure(range(20)))
        again = list(pool.measure([5]))
    assert sorted(value for value, _ in first) == list(range(0, 40, 2))
    assert [value for value, _ in again] == [10]
    assert len({process for _, process in first + again}) <= 2
    assert os.getpid() not in {process for _, process in first}


def test_a_thing_that_kills_its_worker_twice_fails_and_the_others_do_not():
    with Pool(Doubling(), 1, 1000) as pool:
        results = list(pool.measure([1, DEADLY, 2]))
    assert [value for value, *_ in (result for result in results if not isinstance(result, str))] == [2, 4]
    reason = "the worker process died 2 times: SIGKILL, perhaps for lack of memory"
    assert [result for result in results if isinstance(result, str)] == [f"{DEADLY}: {reason}"]


def test_a_worker_makes_way_after_some_things():
    with Pool(Doubling(), 1, 2) as pool:
        processes = [process for _, process in pool.measure(range(5))]
    assert len(set(processes)) == 3
    assert processes[0] == processes[1]


def test_things_that_share_work_have_the_same_worker():
    """The last things may have another worker, so that none is idle."""
    pairs = 40
    with Pool(Doubling(seconds=0.01), 2, 1000, lambda thing: thing // 2) as pool:
        process_of = {value // 2: process for value, process in pool.measure(range(2 * pairs))}
    assert len(process_of) == 2 * pairs
    together = sum(process_of[2 * pair] == process_of[2 * pair + 1] for pair in range(pairs))
    assert together >= pairs - 2


def test_workers_that_cannot_read_their_job_are_an_error():
    with (
        pytest.raises(WorkerError, match="ended before its first result: exit status 3"),
        Pool(Unreadable(), 1, 9) as pool,
    ):
        list(pool.measure([1]))


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (3, "exit status 3"),
        (-signal.SIGKILL, "SIGKILL, perhaps for lack of memory"),
        (-signal.SIGSEGV, "SIGSEGV"),
    ],
)
def test_how_a_process_ended_in_words(status, text):
    assert ended(status) == text


def test_things_are_measured_in_this_process_and_in_their_order():
    with here(Doubling()) as backend:
        assert list(backend.measure([3, 1])) == [(6, os.getpid()), (2, os.getpid())]
