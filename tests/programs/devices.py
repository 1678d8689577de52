"""The devices that every program runs on: add a name here and the whole suite covers it."""

import atexit
import re
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from generators.programs import IMAGE_BYTES, Program

from tests.runtime.devices.remote.serving import Served, serving
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.hw.spec.target import Target
from vdla.runtime.device import Device
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.devices.registry import device_of
from vdla.sim.decoded import decode_stream
from vdla.sim.verify.verifier import VerificationError, describe, findings

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


@cache
def _server() -> Served:
    """Start a server, which ends with this process."""
    ending = ExitStack()
    atexit.register(ending.close)
    folder = ending.enter_context(TemporaryDirectory())
    return ending.enter_context(serving(Path(folder), "--insecure", "--clients", "1000"))


def _remote(config: AcceleratorConfig, memory: MemoryParameters) -> Device:
    return device_of(_server().address(), Target(config, memory), DRAM_BYTES)


REMOTE = "remote"
DEVICES = {
    "functional": _functional,
    "functional-interleaved": _interleaved,
    "cycle": _cycle,
    "rtl": _rtl,
    REMOTE: _remote,
}


@cache
def device(name: str, config: AcceleratorConfig, memory: MemoryParameters = REFERENCE_MEMORY) -> Device:
    """Return the device `name`, built once per configuration and memory."""
    return DEVICES[name](config, memory)


def refused_as_unsafe(on: str, program: Program) -> bool:
    """Return whether `on` verifies and a program is unsafe; check that the device refuses it as the verifier
    does."""
    if on != REMOTE:
        return False
    stream = decode_stream(np.frombuffer(program.stream, np.uint8), program.config)
    dram = np.append(program.image, np.zeros(DRAM_BYTES - len(program.image), np.uint8))
    report = findings(stream, dram, stream_address=IMAGE_BYTES)
    if report:
        with pytest.raises(VerificationError, match=re.escape(describe(report[0], stream))):
            program.run_on(device(on, program.config))
    return bool(report)
