"""The kit from Python: compile a network, load a module, run it.

>>> module = vdla.compile("network.onnx", samples=[{"image": image}])
>>> scores = module.run({"image": image}).outputs["scores"]
>>> print(module.run({"image": image}, device="cycle").table())
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.limits import DRAM_BYTES, require_room
from vdla.hw.spec.memory import MemoryParameters
from vdla.hw.spec.target import Target
from vdla.hw.spec.target_files import target_of
from vdla.runtime.devices.registry import device_of
from vdla.runtime.module import file
from vdla.runtime.module.plan import HostStep, LaunchStep, ModuleError, Plan
from vdla.runtime.session.report import Report, report, table
from vdla.runtime.session.session import Outcome, Session


@dataclass(frozen=True)
class Run:
    """What a run gave.

    Attributes:
        outputs: by name.
        report: where the cycles went.
        outcome: the launches, with the timing of every instruction where the device tells.
    """

    outputs: Mapping[str, np.ndarray]
    report: Report
    outcome: Outcome

    def table(self) -> str:
        """Return the report as text."""
        return table(self.report)


class Module:
    """A compiled network.

    Args:
        plan: what it consists of.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._sessions: dict[tuple[str, MemoryParameters], Session] = {}

    def run(
        self,
        inputs: Mapping[str, np.ndarray],
        device: str = "functional",
        *,
        clock_hz: float | None = None,
        memory: MemoryParameters | None = None,
        progress: Callable[[HostStep | LaunchStep], None] | None = None,
    ) -> Run:
        """Run the network on a device; the module stays in its DRAM for the next run.

        Args:
            inputs: an array for each input, of its shape and type.
            device: "functional", "cycle" or "rtl".
            clock_hz: turns cycles into time; None: the clock of the target that the module was compiled for.
            memory: of a timed device; None: that of the target. Results do not depend on it, cycles do.
            progress: called before each step.

        Raises:
            ModuleError: an input is not what the network takes.
        """
        outcome = self.session(device, memory).run(inputs, progress=progress)
        return Run(outcome.outputs, report(self.plan, outcome, device, clock_hz, memory), outcome)

    def session(self, device: str, memory: MemoryParameters | None = None) -> Session:
        """Return the module on a device in front of a memory, the target's by default; it is placed there at
        the first call.

        Raises:
            ModuleError: its DRAM takes more than `DRAM_BYTES`.
        """
        target = replace(self.plan.target, memory=memory or self.plan.target.memory)
        key = device, target.memory
        if key not in self._sessions:
            subject = f"{self.plan.name} on a device: its DRAM takes"
            require_room(self.plan.dram_bytes, DRAM_BYTES, subject, ModuleError)
            options = {"log": True} if device == "cycle" else {}
            self._sessions[key] = Session(
                device_of(device, target, self.plan.dram_bytes, **options), self.plan
            )
        return self._sessions[key]

    def save(self, path: str | os.PathLike) -> None:
        """Write the module to a file."""
        file.save(self.plan, path)


def load(path: str | os.PathLike) -> Module:
    """Read a module from its file; needs neither the compiler nor `onnx`."""
    return Module(file.load(path))


def compile(
    model: str | os.PathLike | bytes,
    target: Target | AcceleratorConfig | str | Path = "default",
    *,
    samples: Iterable[Mapping[str, np.ndarray]] | None = None,
    percentile: float = 100.0,
    shapes: Mapping[str, Sequence[int]] | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Module:
    """Compile an ONNX model.

    Args:
        target: a target or a configuration, the name of a preset, or a file.
        samples: inputs by which a float network is quantised.
        percentile: of the magnitudes of each activation that its scale must hold.
        shapes: of inputs whose own are dynamic.
        progress: told of what is being done.

    Raises:
        GraphError: the model cannot be imported; or it is of floats, and no samples were given.
    """
    from vdla.compiler.network.cached import Source, cached_plan

    source = Source(model, None if samples is None else list(samples), percentile, shapes)
    return Module(cached_plan(source, target_of(target), progress))
