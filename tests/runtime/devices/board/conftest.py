"""A board in Python with the configuration `tiny`, in front of which the driver runs."""

import pytest
from wire.python_board import PythonBoard

from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target


@pytest.fixture(scope="module")
def running():
    with PythonBoard(Target(TINY), device="functional") as board:
        yield board


@pytest.fixture
def board(running):
    running.reset()
    return running
