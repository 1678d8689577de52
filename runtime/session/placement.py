"""Placing a module in a device's DRAM: its tensors, weights and streams."""

from collections.abc import Mapping
from dataclasses import dataclass

from vdla.hw.spec.errors import AccessError, EncodingError
from vdla.runtime.device import Device
from vdla.runtime.module.plan import ModuleError, Plan
from vdla.runtime.session.launch import Launch, Tensor, allocate, place_stream


@dataclass(frozen=True)
class PlacedPlan:
    """A module in a device's DRAM.

    Attributes:
        tensors: where its tensors and weights stand.
        launches: its streams.
    """

    tensors: Mapping[str, Tensor]
    launches: Mapping[str, Launch]


def place_plan(device: Device, plan: Plan, *, verifies: bool = True) -> PlacedPlan:
    """Allocate and fill the DRAM that a module needs.

    Args:
        device: of the module's configuration.
        verifies: verify each stream before its first run.

    Raises:
        ModuleError: a stream reaches outside the tensors, weights and micro-ops that the plan gives it.
        DeviceError: the device's DRAM is too small.
    """
    tensors = {name: Tensor(allocate(device, size), size) for name, size in plan.tensors.items()}
    for name, values in plan.weights.items():
        tensors[name] = Tensor(allocate(device, values.nbytes), values.nbytes, writable=False)
        device.copy_in(tensors[name].address, values)
    launches = {name: _place(device, plan, tensors, name, verifies) for name in plan.streams}
    return PlacedPlan(tensors, launches)


def _place(device: Device, plan: Plan, tensors: Mapping[str, Tensor], name: str, verifies: bool) -> Launch:
    stream = plan.streams[name]
    try:
        stream_tensors = {each: tensors[each] for each in stream.tensors if each in tensors}
        return place_stream(device, stream, stream_tensors, verifies=verifies)
    except (AccessError, EncodingError) as error:
        raise ModuleError(f"module {plan.name}, stream {name}: {error}") from error
