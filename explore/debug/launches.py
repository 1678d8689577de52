"""Recordings of the runs of vectors and modules, with their DRAM and with what is wrong in their results."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from vdla.explore.debug.contents import Contents
from vdla.explore.debug.differences import (
    WatchedSession,
    launch_differences,
    reference_values,
    vector_differences,
)
from vdla.explore.debug.dram import Difference, launch_image, vector_image
from vdla.explore.debug.recording import Recording, explained_memory
from vdla.hw.spec.memory import REFERENCE_MEMORY
from vdla.hw.spec.sdram import AnyMemory
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.module.plan import Plan
from vdla.runtime.session.report import Report, report
from vdla.runtime.session.session import Outcome
from vdla.runtime.session.traced import traced
from vdla.runtime.vectors import Vector, stream_address
from vdla.sim.decoded import decode_stream
from vdla.sim.overwrites import refuse_overwrites
from vdla.sim.scratchpads import Scratchpads
from vdla.sim.timing.simulate import simulate


def with_differences(recording: Recording, differences: Iterable[Difference]) -> Recording:
    """Return a recording whose image has these differences."""
    return replace(recording, image=replace(recording.image, differences=tuple(differences)))


def vector_recording(vector: Vector, memory: AnyMemory = REFERENCE_MEMORY) -> Recording:
    """Simulate a vector's program, and compare its results with the vector's. A run that the hardware would
    stop is returned, too.

    Raises:
        DebugError: the memory is an SDRAM.
        OverwriteError: the program would change itself.
    """
    explained = explained_memory(memory)
    program, address = decode_stream(vector.stream, vector.config), stream_address(vector)
    refuse_overwrites(program, address)
    timing = simulate(program, explained, stream_address=address, log=True)
    recording = Recording(vector.name, timing, explained, image=vector_image(vector))
    if timing.fault:
        return recording
    return with_differences(recording, vector_differences(Contents(recording), vector))


def recordings_of(
    plan: Plan, outcome: Outcome, run_report: Report, memory: AnyMemory | None = None, name: str = ""
) -> tuple[Recording, ...]:
    """Return the recording of each launch of a module's run on the cycle device.

    Args:
        plan: of the network.
        outcome: of its run, or of `Module.rehearse`, with logs.
        run_report: of that run.
        memory: that it ran with; None: the memory of the plan's target.
        name: of the network; empty: the plan's.

    Raises:
        DebugError: the memory is an SDRAM.
    """
    runs, name, explained = [], name or plan.name, explained_memory(memory or plan.target.memory)
    for number, (ran, layers) in enumerate(traced(plan, outcome, run_report), 1):
        assert ran.timing is not None, "the cycle device times every launch"
        launch_name = name if len(plan.launches) == 1 else f"{name} {number}"
        runs.append(
            Recording(launch_name, ran.timing, explained, layers, launch_image(plan, ran.step, ran.launch))
        )
    return tuple(runs)


def compared_recordings(
    plan: Plan, inputs: Mapping[str, np.ndarray], memory: AnyMemory | None = None, name: str = ""
) -> tuple[Recording, ...]:
    """Run a module with inputs, and compare the result of each layer on the accelerator with the result of
    the network's graph of integer operators; streams are not verified.

    Args:
        plan: of the network.
        inputs: an array for each input.
        memory, name: as for `recordings_of`.

    Raises:
        DebugError: the memory is an SDRAM.
        ModuleError: an input is missing, unknown, of another shape or type, or not finite.
    """
    explained = explained_memory(memory or plan.target.memory)
    device = CycleDevice(plan.config, plan.dram_bytes, explained, log=True)
    session = WatchedSession(device, plan)
    outcome = session.run(inputs)
    run_report = report(plan, outcome, device.name, memory=explained)
    recordings = recordings_of(plan, outcome, run_report, explained, name)
    return tuple(_compared(plan, recordings, session, outcome, inputs))


def _compared(
    plan: Plan,
    recordings: Iterable[Recording],
    session: WatchedSession,
    outcome: Outcome,
    inputs: Mapping[str, np.ndarray],
) -> Iterator[Recording]:
    values, pads = reference_values(plan, inputs), Scratchpads(plan.config)
    for plain, ran in zip(recordings, outcome.launches, strict=True):
        before = session.before[ran.step.stream]
        recording = replace(plain, image=replace(plain.image, before=before, complete=True))
        wrong = launch_differences(Contents(recording), ran, pads, before.copy(), values)
        yield with_differences(recording, wrong)
