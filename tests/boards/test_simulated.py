"""The simulated board: the whole system on chip behind the driver of boards."""

import os
import signal
from contextlib import closing

import numpy as np
import pytest

from vdla.boards import simulated
from vdla.boards.simulated import simulate
from vdla.boards.soc import CORE_MEMORY
from vdla.hw.spec import codec, isa
from vdla.hw.spec.errors import DeviceError
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.vocabulary import MemoryType
from vdla.runtime.devices.board.device import BoardDevice
from vdla.runtime.devices.board.driver import Driver
from vdla.runtime.devices.board.link import open_link
from vdla.runtime.devices.functional import FunctionalDevice

DRAM_BYTES = 1 << 15
DATA, STREAM, RESULT, ROWS = 0x1000, 0x2000, 0x3000, 16


def stream() -> bytes:
    """Return a stream that stores ROWS accumulators, loaded from DATA, at RESULT."""
    acc, out = (TINY.element_bytes(memory) for memory in (MemoryType.ACC, MemoryType.OUT))
    rows = {"x_size": ROWS, "y_size": 1, "x_stride": ROWS}
    return codec.to_bytes(
        [
            isa.Load(memory_type=MemoryType.ACC, dram_base=DATA // acc, **rows),
            isa.Load(memory_type=MemoryType.UOP, push_next=1),
            isa.Store(memory_type=MemoryType.OUT, dram_base=RESULT // out, pop_prev=1, push_prev=1, **rows),
            isa.Finish(pop_next=1),
        ],
        TINY,
    )


def result(device, image: np.ndarray) -> np.ndarray:
    """Run the stream on an image of DATA; return the page of results."""
    device.copy_in(DATA, image)
    device.copy_in(STREAM, stream())
    device.run(STREAM, 4)
    return device.copy_out(RESULT, 4096)


def test_the_driver_runs_a_stream_on_the_simulated_system():
    image = np.random.default_rng(3).integers(0, 256, 4096, np.uint8)
    with closing(BoardDevice(TINY, DRAM_BYTES, board="sim")) as device:
        found = result(device, image)
        cycles = device.run(STREAM, 4).cycles
    np.testing.assert_array_equal(found, result(FunctionalDevice(TINY, DRAM_BYTES), image))
    assert found.any()
    assert 64 < cycles < 2000


def test_the_core_waits_for_a_program_and_runs_it():
    program = [
        0x1000_02B7,  # lui t0, 0x10000
        0x02A0_0313,  # li t1, 42
        0x0062_A223,  # sw t1, 4(t0)
        0x0000_006F,  # j 0
    ]
    with closing(simulate(TINY, core=True)) as simulation:
        driver = Driver(simulation.file, open_link(simulation.file.link))
        driver.write(CORE_MEMORY + 8, np.array(program, "<u4").view(np.uint8))
        before = driver.words(CORE_MEMORY, 3)
        driver.write(CORE_MEMORY, np.array([CORE_MEMORY + 8], "<u4").view(np.uint8))
        after = driver.words(CORE_MEMORY, 2)
        errors = driver.words(simulation.file.csr["ctrl_bus_errors"], 1)
        driver.close()
    assert before == [0, 0, program[0]]
    assert after == [CORE_MEMORY + 8, 42]
    assert errors == [0]


def test_the_program_ends_with_the_simulation():
    simulation = simulate(TINY)
    process = simulation._process
    assert process.poll() is None
    simulation.close()
    assert process.poll() == -signal.SIGKILL


def test_a_program_that_does_not_start_is_an_error(monkeypatch, tmp_path):
    (tmp_path / simulated.PROGRAM).write_text("#!/bin/sh\necho no\n")
    os.chmod(tmp_path / simulated.PROGRAM, 0o755)
    monkeypatch.setattr(simulated, "built", lambda *arguments: tmp_path)
    with pytest.raises(DeviceError, match=r"simulated board has not started in 60 s: it printed b'no\\n'"):
        simulate(TINY)
