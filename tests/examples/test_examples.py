"""The examples run, and give NumPy's result, on every device."""

import pytest

from tests.loading import load_file
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice

DRAM_BYTES = 1 << 20


def load(name: str):
    return load_file(f"examples/{name}.py")


@pytest.mark.parametrize("name", ["matrix_multiply", "virtual_threads"])
def test_an_example_runs_on_the_simulators_in_any_order_of_the_units(name):
    module = load(name)
    devices = (
        CycleDevice(module.CONFIG, DRAM_BYTES),
        *(FunctionalDevice(module.CONFIG, DRAM_BYTES, seed) for seed in (None, 0, 1, 2)),
    )
    for device in devices:
        actual, expected = module.run(device)
        assert actual.tolist() == expected.tolist()


def test_virtual_threads_run_on_the_rtl():
    from vdla.runtime.devices.rtl.build import Optimise
    from vdla.runtime.devices.rtl.device import RtlDevice

    module = load("virtual_threads")
    actual, expected = module.run(RtlDevice(module.CONFIG, DRAM_BYTES, optimise=Optimise.BUILD))
    assert actual.tolist() == expected.tolist()


def test_pages_show_every_stage():
    titles = {
        name: [title for title, _ in load(name).pages()] for name in ("matrix_multiply", "virtual_threads")
    }
    assert [len(listed) for listed in titles.values()] == [5, 3]
