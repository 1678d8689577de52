"""Programs on all devices: what counts as a difference."""

import numpy as np
import pytest
from on_devices import devices_of, differences

from vdla.hw.spec.errors import DeviceError
from vdla.hw.spec.presets import TINY
from vdla.runtime.devices.functional import FunctionalDevice

DEVICES = devices_of(TINY, 1 << 12, on_rtl=False)
EXPECTED = np.arange(4)
NAMES = ("functional[seed None]", "functional[seed 0]", "functional[seed 1]", "functional[seed 2]", "cycle")


def test_a_program_runs_in_program_order_in_others_and_in_the_simulator():
    assert tuple(DEVICES) == NAMES
    messages, cycles = differences(DEVICES, lambda device: (7, EXPECTED), EXPECTED)
    assert (messages, cycles) == ([], dict.fromkeys(NAMES, 7))


def test_other_values_are_counted():
    messages, _ = differences(DEVICES, lambda device: (None, np.array([0, 1, 3, 2])), EXPECTED)
    assert messages == [f"{name}: 2 of 4 values differ" for name in NAMES]


def test_an_error_of_a_device_is_told_and_the_others_run():
    def run(device):
        if isinstance(device, FunctionalDevice):
            raise DeviceError("no room")
        return 7, EXPECTED

    messages, cycles = differences(DEVICES, run, EXPECTED)
    assert messages == [f"{name}: DeviceError: no room" for name in NAMES[:-1]]
    assert cycles == {"cycle": 7}


@pytest.mark.parametrize("rtl", [7, 8])
def test_cycles_of_the_rtl_are_those_of_the_simulator(rtl):
    devices = {"cycle": DEVICES["cycle"], "rtl": DEVICES["functional[seed 0]"]}
    messages, _ = differences(
        devices, lambda device: (7 if device is devices["cycle"] else rtl, EXPECTED), EXPECTED
    )
    assert messages == ([] if rtl == 7 else ["cycles: {'cycle': 7, 'rtl': 8}"])
