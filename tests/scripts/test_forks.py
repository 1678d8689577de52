"""Work in forks: results and failures come back, and what a fork changes ends with it."""

import mmap
import os
import signal

import pytest
from proving.forks import MEMORY_BYTES, ForkError, ForkTimeoutError, in_fork

state = {"value": 1}


def changed() -> int:
    state["value"] = 2
    return state["value"]


def test_a_fork_returns_its_result_and_changes_nothing_here():
    assert in_fork(changed, 10) == 2
    assert state["value"] == 1


@pytest.mark.parametrize(
    ("work", "error", "text"),
    [
        (lambda: 1 // 0, ForkError, "ZeroDivisionError"),
        (lambda: os._exit(3), ForkError, "no result"),
        (lambda: os.kill(os.getpid(), signal.SIGXCPU), ForkTimeoutError, "more than 10 s"),
    ],
)
def test_a_fork_that_fails_is_an_error(work, error, text):
    with pytest.raises(error, match=text):
        in_fork(work, 10)


def test_a_fork_of_a_large_process_may_use_as_much_memory_as_any_other():
    with mmap.mmap(-1, MEMORY_BYTES + (1 << 20), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
        assert in_fork(lambda: len(bytearray(64 << 20)), 10) == 64 << 20


def test_a_fork_that_uses_more_memory_than_it_may_is_an_error():
    with pytest.raises(ForkError, match="MemoryError"):
        in_fork(lambda: len(bytearray(2 * MEMORY_BYTES)), 10)
