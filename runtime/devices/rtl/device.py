"""The RTL device: the compiled Verilog of the hardware, connected to the reference memory."""

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import CycleLimitError, DeviceError
from vdla.hw.spec.memory import REFERENCE_MEMORY
from vdla.hw.spec.registers import OFFSETS, READ_CYCLES, Status
from vdla.hw.spec.sdram import AnyMemory, SdramParameters, sdram_timing
from vdla.runtime.device import DEFAULT_DRAM_BYTES
from vdla.runtime.devices.checked import CheckedDevice
from vdla.runtime.devices.registers import raise_fault, read_counters, read_cycles, start_run
from vdla.runtime.devices.rtl.build import Optimise, Variant, build_library
from vdla.runtime.devices.rtl.design import CORE, Design
from vdla.runtime.devices.rtl.model import Model
from vdla.runtime.devices.rtl.waves import Recording, Waves
from vdla.sim.decoded import DecodedStream

CHUNK_SECONDS = 0.1  # between two looks at Python's signals, about
FIRST_CHUNK_CYCLES = 1000
WATCHDOG_CYCLES = 10_000_000


class RtlDevice(CheckedDevice):
    """Verilated RTL and its memory, stepped by C++.

    Building takes seconds where the cache does not hold this hardware yet; see
    `vdla.runtime.devices.rtl.build`.

    Args:
        config: the accelerator.
        dram_bytes: size of DRAM; addresses run from 0.
        memory: timing of the reference memory, or of an SDRAM.
        waves: waveforms to write, one for each run.
        optimise: SPEED for long runs, BUILD where the time to compile matters more.
        design: the hardware; the kit's own core unless something else is to stand in for it.

    Raises:
        ToolError: a tool that builds the simulation is missing or fails.
        OutputError: the first waveform cannot be written.
    """

    name = "rtl"

    def __init__(
        self,
        config: AcceleratorConfig,
        dram_bytes: int = DEFAULT_DRAM_BYTES,
        memory: AnyMemory = REFERENCE_MEMORY,
        waves: Waves | None = None,
        *,
        optimise: Optimise = Optimise.SPEED,
        design: Design = CORE,
    ) -> None:
        super().__init__(config, dram_bytes)
        self._recording = None if waves is None else Recording(waves)
        variant = Variant(Optimise(optimise), None if waves is None else waves.format)
        timing = (
            tuple(sdram_timing(memory, config).values()) if isinstance(memory, SdramParameters) else memory
        )
        self._create = partial(Model, build_library(config, design, variant), timing)
        self._model = self._create()

    @property
    def waveforms(self) -> list[Path]:
        """The waveforms that were written, in the order of their runs."""
        return [] if self._recording is None else list(self._recording.written)

    def reset(self) -> None:
        """Start the simulation anew; DRAM keeps its contents."""
        self._model.close()
        self._model = self._create()

    def close(self) -> None:
        """End the simulation; the device cannot run afterwards."""
        self._model.close()

    def _run(
        self, program: DecodedStream, stream_address: int, cycle_limit: int | None
    ) -> tuple[int, Mapping[str, int]]:
        """Run a stream.

        A run that fails, is interrupted (KeyboardInterrupt) or reaches `cycle_limit` resets the hardware:
        registers and what memory has in flight. DRAM and scratchpads keep what was written. The waveform of a
        run that fails ends there; the waveform of an interrupted run is discarded.
        """
        self._model.attach(self.dram)
        try:
            start = self._start(stream_address, len(program))
            with self._recorded():
                cycles = self._measure(start, cycle_limit)
            raise_fault(self, cycles, partial(self.word_at, stream_address), self.config)
        except BaseException:
            self._model.reset()  # whatever is still going on must not reach into the next run
            raise
        return cycles, read_counters(self)

    def _start(self, address: int, count: int) -> int:
        """Start a run; return its first cycle, which follows the write of CONTROL."""
        start_run(self, address, count)
        self._model.restart()
        return self._model.cycle

    def _recorded(self) -> AbstractContextManager[None]:
        """Return the context that records a run from the next cycle on, if runs are recorded."""
        return nullcontext() if self._recording is None else self._recording.of(self._model)

    def _measure(self, start: int, limit: int | None) -> int:
        """Wait for the end of a run and return its cycles."""
        measured = self._step_until_done(start, limit)
        cycles = read_cycles(self)
        self._check_hardware(cycles, measured)
        return cycles

    def _step_until_done(self, start: int, limit: int | None) -> int | None:
        """Return the cycles from `start` to the rise of DONE, as seen from outside; None when the watchdog
        had to look inside."""
        watchdog, chunk = _Watchdog(self._model, start), _Chunk()
        while not chunk.poll(self._model, None if limit is None else start + limit + 1):
            if limit is not None and self._model.cycle > start + limit:
                raise CycleLimitError(
                    f"the run was stopped at its limit of {limit} cycles; it had not finished"
                )
            watchdog.check()
        return None if watchdog.has_read else self._model.cycle - 1 - start

    def _check_hardware(self, cycles: int, measured: int | None) -> None:
        """Raise what only a defect of the hardware can cause."""
        if measured is not None and measured != cycles:
            raise DeviceError(
                f"the register CYCLES says {cycles}, but {measured} cycles passed from start to done: "
                "this is a defect of the hardware"
            )
        broken = self._model.protocol
        if broken:
            raise DeviceError(
                f"the core broke the contract of its memory port ({broken.name}): this is a defect of the "
                "hardware"
            )

    def read_register(self, name: str) -> int:
        """Return the value of a register."""
        return self._model.read(OFFSETS[name], READ_CYCLES[name])

    def write_register(self, name: str, value: int) -> None:
        """Write a register."""
        self._model.write(OFFSETS[name], value)


class _Chunk:
    """Steps between two looks at Python's signals: as many cycles as take about CHUNK_SECONDS."""

    def __init__(self) -> None:
        self._cycles = FIRST_CHUNK_CYCLES

    def poll(self, model: Model, end: int | None) -> bool:
        """Step a chunk, no further than to cycle `end`; return whether the run is done."""
        cycles = self._cycles if end is None else max(0, min(self._cycles, end - model.cycle))
        began = time.perf_counter()
        done = model.poll(OFFSETS["STATUS"], Status.DONE, cycles)
        seconds = time.perf_counter() - began
        if seconds < CHUNK_SECONDS / 2:
            self._cycles *= 2
        elif seconds > CHUNK_SECONDS:
            self._cycles = max(1, self._cycles // 2)
        return done


class _Watchdog:
    """Ends a run in which memory moves nothing and no step is executed for WATCHDOG_CYCLES.

    The hardware stops deadlocked programs itself; this is the bound for hardware that does not.
    """

    def __init__(self, model: Model, start: int) -> None:
        self._model = model
        self._last_progress = start
        self._steps = (0, 0)
        self.has_read = False

    def check(self) -> None:
        """Raise DeviceError when nothing has happened for too long."""
        self._last_progress = max(self._last_progress, self._model.last_transfer)
        if self._model.cycle - self._last_progress < WATCHDOG_CYCLES:
            return
        self.has_read = True
        first, second = (
            self._model.read(OFFSETS[name], READ_CYCLES[name]) for name in ("GEMM_STEPS", "ALU_STEPS")
        )
        steps = (first, second)
        if steps == self._steps:
            raise DeviceError(
                f"the hardware has neither finished nor done anything for {WATCHDOG_CYCLES} cycles, and "
                "did not stop itself: "
                "this is a defect of the hardware"
            )
        self._steps, self._last_progress = steps, self._model.cycle
