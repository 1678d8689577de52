"""Running a program on all devices, and comparing their results."""

from collections.abc import Callable

import numpy as np

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import VdlaError
from vdla.runtime.device import Device
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice

INTERLEAVINGS = 3  # random orders of the units on the functional device, beside program order

Outcome = tuple[int | None, np.ndarray]
"""Cycles, which the functional device does not count, and the result."""


def devices_of(config: AcceleratorConfig, dram_bytes: int, *, on_rtl: bool) -> dict[str, Device]:
    """Return fresh devices by name: functional devices, the cycle simulator and, if wanted, the RTL."""
    devices: dict[str, Device] = {
        f"functional[seed {order}]": FunctionalDevice(config, dram_bytes, order)
        for order in (None, *range(INTERLEAVINGS))
    }
    devices["cycle"] = CycleDevice(config, dram_bytes)
    if on_rtl:
        from vdla.runtime.devices.rtl.build import Optimise
        from vdla.runtime.devices.rtl.device import RtlDevice

        devices["rtl"] = RtlDevice(config, dram_bytes, optimise=Optimise.BUILD)
    return devices


def differences(
    devices: dict[str, Device], run: Callable[[Device], Outcome], expected: np.ndarray
) -> tuple[list[str], dict[str, int | None]]:
    """Return what is wrong with a program, a line each, and its cycles by device.

    Wrong are errors of a device, values other than `expected`, and a number of cycles of the RTL that differs
    from the number of the cycle simulator.
    """
    problems: list[str] = []
    cycles: dict[str, int | None] = {}
    for name, device in devices.items():
        try:
            cycles[name], out = run(device)
        except VdlaError as error:
            problems.append(f"{name}: {type(error).__name__}: {error}")
            continue
        if not np.array_equal(out, expected):
            problems.append(f"{name}: {np.count_nonzero(out != expected)} of {out.size} values differ")
    if "rtl" in devices and cycles.get("rtl") != cycles.get("cycle"):
        problems.append(f"cycles: {cycles}")
    return problems, cycles
