"""Division of a byte range into bursts, as in `vdla.hw.bursts`."""

from vdla.sim.compiled import part
from vdla.sim.timing.state import Hardware


@part
def burst_size(hardware: Hardware, address: int, remaining: int) -> int:
    """Return the bytes of the first burst of `remaining` bytes at `address`: up to the next multiple of
    `burst_bytes`."""
    return min(remaining, hardware.burst_bytes - (address & (hardware.burst_bytes - 1)))


@part
def burst_beats(hardware: Hardware, address: int, remaining: int) -> int:
    """Return the beats which that burst touches."""
    last = address + burst_size(hardware, address, remaining) - 1
    return (last >> hardware.bus_shift) - (address >> hardware.bus_shift) + 1
