"""The RTL device."""

from vdla.runtime.devices.rtl.build import Optimise
from vdla.runtime.devices.rtl.device import RtlDevice

__all__ = ["Optimise", "RtlDevice"]
