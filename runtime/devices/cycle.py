"""The cycle device: results of the functional model, cycles of the cycle simulator."""

from collections.abc import Mapping
from typing import ClassVar

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ProgramError
from vdla.hw.spec.memory import REFERENCE_MEMORY
from vdla.hw.spec.sdram import AnyMemory
from vdla.runtime.device import DEFAULT_DRAM_BYTES
from vdla.runtime.devices.checked import CheckedDevice
from vdla.sim.decoded import DecodedStream
from vdla.sim.functional import Machine
from vdla.sim.interleave import interleave
from vdla.sim.timing.result import Timing
from vdla.sim.timing.simulate import simulate


class CycleDevice(CheckedDevice):
    """Takes exactly the cycles of the RTL in front of the reference memory, and leaves the DRAM of the
    functional device.

    Args:
        config: the accelerator.
        dram_bytes: size of DRAM.
        memory: timing of the reference memory, or of an SDRAM.
        arithmetic: False: find out the time alone. DRAM stays as it is, and accesses are not checked.
        log: keep what a trace needs in `timing`.

    Attributes:
        timing: of the last run that ended well; None before.
    """

    name: ClassVar[str] = "cycle"

    def __init__(
        self,
        config: AcceleratorConfig,
        dram_bytes: int = DEFAULT_DRAM_BYTES,
        memory: AnyMemory = REFERENCE_MEMORY,
        *,
        arithmetic: bool = True,
        log: bool = False,
    ) -> None:
        super().__init__(config, dram_bytes)
        self.memory, self.arithmetic, self.log = memory, arithmetic, log
        self.timing: Timing | None = None
        self._machine = Machine(config)

    def _run(
        self, program: DecodedStream, stream_address: int, cycle_limit: int | None
    ) -> tuple[int, Mapping[str, int]]:
        """Run a stream. A run that reaches `cycle_limit` changes nothing.

        After an interrupt (KeyboardInterrupt), `timing` is as before, DRAM and scratchpads are as
        `Machine.run` says, and the device can run again.
        """
        timing = simulate(
            program, self.memory, stream_address=stream_address, log=self.log, cycle_limit=cycle_limit
        )
        if self.arithmetic:
            self._machine.run(program, self.dram)
        if timing.fault:
            raise _explained(program, timing)
        self.timing = timing
        return timing.cycles, timing.counters

    def reset(self) -> None:
        """Clear the scratchpads; DRAM keeps its contents."""
        self._machine.pads.clear()


def _explained(program: DecodedStream, timing: Timing) -> ProgramError:
    """Return the error that explains why the hardware stopped the run."""
    error = interleave(program).error
    assert error is not None, (
        f"the hardware stops this run with {timing.fault.name}, the functional model does not"
    )
    return error
