"""The device without time: the exact meaning of a stream, as fast as this machine allows."""

from collections.abc import Mapping
from typing import ClassVar

from vdla.hw.spec.config import AcceleratorConfig
from vdla.runtime.device import DEFAULT_DRAM_BYTES
from vdla.runtime.devices.checked import CheckedDevice
from vdla.sim.decoded import DecodedStream
from vdla.sim.functional import Machine, counters


class FunctionalDevice(CheckedDevice):
    """Executes whole instructions, in program order where tokens allow it.

    Args:
        config: the accelerator.
        dram_bytes: size of DRAM.
        seed: None: the order is deterministic. Else each run picks at random among the units that can go on,
            so that a token missing from a stream shows as a wrong result for some seed.

    Attributes:
        machine: the model, with its scratchpads.
    """

    name: ClassVar[str] = "functional"

    def __init__(
        self, config: AcceleratorConfig, dram_bytes: int = DEFAULT_DRAM_BYTES, seed: int | None = None
    ) -> None:
        super().__init__(config, dram_bytes)
        self.seed = seed
        self.machine = Machine(config)

    def _run(
        self, program: DecodedStream, stream_address: int, cycle_limit: int | None
    ) -> tuple[None, Mapping[str, int]]:
        """Run a stream. `cycle_limit` is ignored: there are no cycles, and every run ends.

        The counters are as in `vdla.sim.functional.counters`. After an interrupt (KeyboardInterrupt), DRAM
        and scratchpads are as `Machine.run` says, and the device can run again.
        """
        order = self.machine.run(program, self.dram, seed=self.seed)
        return None, counters(program, order)

    def reset(self) -> None:
        """Clear the scratchpads; DRAM keeps its contents."""
        self.machine.pads.clear()
