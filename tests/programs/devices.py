"""The devices that every program runs on: add a name here and the whole suite covers it."""

from functools import cache

from generators.programs import IMAGE_BYTES

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.runtime.device import Device
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice

DRAM_BYTES = 2 * IMAGE_BYTES


def _functional(config: AcceleratorConfig, memory: MemoryParameters) -> Device:
    return FunctionalDevice(config, DRAM_BYTES)


def _interleaved(config: AcceleratorConfig, memory: MemoryParameters) -> Device:
    return FunctionalDevice(config, DRAM_BYTES, seed=1)


def _cycle(config: AcceleratorConfig, memory: MemoryParameters) -> Device:
    return CycleDevice(config, DRAM_BYTES, memory)


def _rtl(config: AcceleratorConfig, memory: MemoryParameters) -> Device:
    from vdla.runtime.devices.rtl.build import Optimise
    from vdla.runtime.devices.rtl.device import RtlDevice

    return RtlDevice(config, DRAM_BYTES, memory, optimise=Optimise.BUILD)


DEVICES = {"functional": _functional, "functional-interleaved": _interleaved, "cycle": _cycle, "rtl": _rtl}


@cache
def device(name: str, config: AcceleratorConfig, memory: MemoryParameters = REFERENCE_MEMORY) -> Device:
    """Return the device `name`, built once per configuration and memory."""
    return DEVICES[name](config, memory)
