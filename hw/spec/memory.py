"""The reference memory: one deterministic DRAM that stands behind the simulator and in front of the RTL.

It serves requests in order of acceptance over one data path of `bus_bits`, shared by reads and writes.

* A request is accepted in a cycle in which it is offered and fewer than `depth` requests are in flight. It is
  in flight from the cycle after its acceptance to the cycle of its last beat, both included.
* Only the oldest request in flight moves data. From `latency` cycles after its acceptance on, a read offers
  its next beat in every cycle, until the accelerator takes the beat. A write takes a beat in every cycle in
  which the accelerator offers a beat.
* Beats keep a distance. The next beat of any request moves `cycles_per_beat` cycles after the last beat at
  the earliest. At the start of a run the data path is free.
* A write is answered in the cycle after its last beat.

Source: architecture contract "reference memory": 8 bytes per cycle in total, 64 cycles, bursts of at most 256
bytes, 16 requests in flight. Width and burst length are the accelerator's `bus_bits` and `burst_bytes`.
"""

from dataclasses import dataclass

from vdla.hw.spec.errors import ConfigError


@dataclass(frozen=True, slots=True)
class MemoryParameters:
    """Timing of the reference memory.

    Attributes:
        latency: cycles from a read's acceptance to its first data, at least 1.
        depth: requests in flight, at least 1.
        cycles_per_beat: from one beat to the next, at least 1; 4 is a quarter of the bandwidth.
    """

    latency: int = 64
    depth: int = 16
    cycles_per_beat: int = 1

    def __post_init__(self) -> None:
        for name, high in (("latency", 1 << 20), ("depth", 1 << 10), ("cycles_per_beat", 1 << 10)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
                raise ConfigError(f"memory {name} = {value!r} is outside 1..{high}")


REFERENCE_MEMORY = MemoryParameters()
