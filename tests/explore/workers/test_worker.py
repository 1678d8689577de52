"""A worker process, run here in a thread: what it sends, and when it ends."""

import gc
import os
import pickle
from multiprocessing import Pipe
from threading import Thread

import pytest

from tests.explore.workers.jobs import Doubling
from vdla.explore.workers.job import READY
from vdla.explore.workers.worker import main


@pytest.fixture
def worker(monkeypatch, tmp_path):
    """Return the connection of a worker, and its thread."""
    monkeypatch.setattr("vdla.explore.workers.worker.Path", lambda _: tmp_path / "score")
    file = os.memfd_create("job")
    os.write(file, pickle.dumps(Doubling()))
    ours, theirs = Pipe()
    thread = Thread(target=main, args=(theirs, file), daemon=True)
    thread.start()
    yield ours, thread
    ours.close()
    thread.join(10)
    os.close(file)
    gc.enable()
    gc.unfreeze()


def received(connection):
    """Return what a worker sends; a worker that sends nothing does not block the test."""
    assert connection.poll(10), "the worker sends nothing"
    return connection.recv()


def test_it_says_that_it_is_ready_and_then_answers_in_order(worker, tmp_path):
    connection, _ = worker
    assert received(connection) == READY
    for number in (3, 1):
        connection.send(number)
        assert received(connection) == (2 * number, os.getpid())
    assert (tmp_path / "score").read_text() == "1000"
    assert not gc.isenabled()
    assert gc.get_freeze_count() > 0


def test_it_ends_with_its_connection(worker):
    connection, thread = worker
    assert received(connection) == READY
    connection.close()
    thread.join(10)
    assert not thread.is_alive()
