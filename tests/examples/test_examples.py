"""The examples run, and give NumPy's result, on every device."""

import importlib.util
from pathlib import Path

import pytest

from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice

EXAMPLES = Path(__file__).parents[2] / "examples"
DRAM_BYTES = 1 << 20


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["matrix_multiply", "virtual_threads"])
def test_an_example_runs_on_the_simulators_in_any_order_of_the_units(name):
    module = load(name)
    module.run(CycleDevice(module.CONFIG, DRAM_BYTES))
    for seed in (None, 0, 1, 2):
        module.run(FunctionalDevice(module.CONFIG, DRAM_BYTES, seed))


def test_virtual_threads_run_on_the_rtl():
    from vdla.runtime.devices.rtl.build import Optimise
    from vdla.runtime.devices.rtl.device import RtlDevice

    module = load("virtual_threads")
    module.run(RtlDevice(module.CONFIG, DRAM_BYTES, optimise=Optimise.BUILD))


def test_pages_show_every_stage():
    titles = {name: [title for title, _ in load(name).pages()] for name in ("matrix_multiply", "virtual_threads")}
    assert [len(found) for found in titles.values()] == [5, 3]
