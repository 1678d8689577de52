"""The cycle device: what it does beside its cycles, which the tests of the simulator look at."""

import numpy as np
import pytest

from tests.programs.cases import FILL, all_out, store
from vdla.hw.spec import isa
from vdla.hw.spec.errors import CycleLimitError, UnfinishedError
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice

DRAM_BYTES, SOURCE, RESULT = 1 << 17, 0x2000, 0x10000
STREAM = (FILL, *all_out()[:1], store(4, address=RESULT, pop_prev=1), isa.Finish())


def ran(device):
    """Run a stream that writes to RESULT; return the result and the DRAM of the device."""
    device.copy_in(SOURCE, np.arange(1, 201, dtype=np.uint8))
    return device.execute(STREAM), device.dram.copy()


def test_it_leaves_the_dram_and_counters_of_the_functional_device_and_tells_its_cycles():
    (expected, dram), device = ran(FunctionalDevice(TINY, DRAM_BYTES)), CycleDevice(TINY, DRAM_BYTES)
    assert (device.memory, device.timing) == (REFERENCE_MEMORY, None)
    result, cycle_dram = ran(device)
    np.testing.assert_array_equal(cycle_dram, dram)
    assert cycle_dram[RESULT : RESULT + 16].any()
    assert expected.cycles is None
    assert result.cycles == device.timing.cycles > 0
    assert result.counters == device.timing.counters
    assert device.timing.log is None


def test_the_time_alone_leaves_dram_as_it_is():
    device = CycleDevice(TINY, DRAM_BYTES, arithmetic=False)
    result, dram = ran(device)
    assert not dram[RESULT : RESULT + 64].any()
    assert result.cycles == ran(CycleDevice(TINY, DRAM_BYTES))[0].cycles


def test_a_log_is_kept_where_it_is_asked_for_and_memory_may_be_another():
    device = CycleDevice(TINY, DRAM_BYTES, MemoryParameters(latency=300), log=True)
    result, _ = ran(device)
    assert len(device.timing.log.spans)
    assert result.cycles > ran(CycleDevice(TINY, DRAM_BYTES))[0].cycles + 200


def test_a_run_that_is_stopped_is_not_the_last_that_ended_well():
    device = CycleDevice(TINY, DRAM_BYTES)
    cycles = ran(device)[0].cycles
    timing = device.timing
    with pytest.raises(CycleLimitError):
        device.execute(STREAM, cycle_limit=cycles - 1)
    assert device.execute(STREAM, cycle_limit=cycles).cycles == cycles
    assert device.timing is not timing
    timing = device.timing
    with pytest.raises(UnfinishedError):
        device.execute(STREAM[:-1])
    assert device.timing is timing


@pytest.mark.parametrize("kind", [CycleDevice, FunctionalDevice])
def test_a_reset_clears_scratchpads_and_keeps_dram(kind):
    device = kind(TINY, DRAM_BYTES)
    _, dram = ran(device)
    machine = getattr(device, "machine", None) or device._machine
    assert machine.pads.acc.any() or machine.pads.uop.any()
    device.reset()
    assert not machine.pads.acc.any()
    assert not machine.pads.uop.any()
    np.testing.assert_array_equal(device.dram, dram)
