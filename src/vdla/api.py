"""The kit from Python: compile a network, load a module, run it.

    >>> module = vdla.compile("network.onnx", samples=[{"image": image}])
    >>> scores = module.run({"image": image}).outputs["scores"]
    >>> print(module.run({"image": image}, device="cycle").table())
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.files import load as load_config
from vdla.hw.spec.limits import DRAM_BYTES, require_room
from vdla.runtime.devices.registry import device_factory
from vdla.runtime.devices.report import Report, report, table
from vdla.runtime.devices.session import Outcome, Session
from vdla.runtime.module import file
from vdla.runtime.module.plan import HostStep, LaunchStep, ModuleError, Plan

CLOCK_HZ = 100e6  # at which cycles are turned into time, unless told otherwise


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
        self._sessions: dict[str, Session] = {}

    def run(self, inputs: Mapping[str, np.ndarray], device: str = "functional", *, clock_hz: float = CLOCK_HZ,
            progress: Callable[[HostStep | LaunchStep], None] | None = None) -> Run:
        """Run the network on a device; the module stays in its DRAM for the next run.

        Args:
            inputs: an array for each input, of its shape and type.
            device: "functional", "cycle" or "rtl".

        Raises:
            ModuleError: an input is not what the network takes.
        """
        outcome = self.session(device).run(inputs, progress=progress)
        return Run(outcome.outputs, report(self.plan, outcome, device, clock_hz), outcome)

    def session(self, device: str) -> Session:
        """Return the module on a device, placed there at the first call.

        Raises:
            ModuleError: its DRAM takes more than `DRAM_BYTES`.
        """
        if device not in self._sessions:
            subject = f"{self.plan.name} on a device: its DRAM takes"
            require_room(self.plan.dram_bytes, DRAM_BYTES, subject, ModuleError)
            options = {"log": True} if device == "cycle" else {}
            made = device_factory(device)(self.plan.config, dram_bytes=self.plan.dram_bytes, **options)
            self._sessions[device] = Session(made, self.plan)
        return self._sessions[device]

    def save(self, path: str | os.PathLike) -> None:
        """Write the module to a file."""
        file.save(self.plan, path)


def load(path: str | os.PathLike) -> Module:
    """Read a module from its file; needs neither the compiler nor `onnx`."""
    return Module(file.load(path))


def compile(model: str | os.PathLike | bytes, config: AcceleratorConfig | str = "default", *,
            samples: Iterable[Mapping[str, np.ndarray]] | None = None, percentile: float = 100.0,
            shapes: Mapping[str, Sequence[int]] | None = None, progress: Callable[[str], None] = lambda text: None) -> Module:
    """Compile an ONNX model.

    Args:
        config: a configuration, the name of a preset, or a file.
        samples: inputs by which a float network is quantised.
        percentile: of the magnitudes of each activation that its scale must hold.
        shapes: of inputs whose own are dynamic.
        progress: told of what is being done.

    Raises:
        GraphError: the model cannot be imported; or it is of floats, and no samples were given.
    """
    from vdla.compiler.network.compile import compile_network
    chosen = config if isinstance(config, AcceleratorConfig) else load_config(config)
    return Module(compile_network(model, chosen, samples=samples, percentile=percentile, shapes=shapes, progress=progress).plan)
