"""The worker in this process."""

import os

from tests.explore.workers.jobs import Doubling
from vdla.explore.workers.here import here


def test_things_are_measured_in_this_process_and_in_their_order():
    with here(Doubling()) as backend:
        assert list(backend.measure([3, 1])) == [(6, os.getpid()), (2, os.getpid())]
