"""The Python interface: compile a network, load a module, run it.

>>> module = vdla.compile("network.onnx", samples={"image": images})
>>> scores = module.run(image).outputs["scores"]
>>> print(module.run(image, device="cycle").table())
>>> points = vdla.sweep("sweep.toml", "build/sweep").points().to_pandas()
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vdla.explore.silicon.note import clock_note
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import DeviceError
from vdla.hw.spec.extras import require_package
from vdla.hw.spec.limits import DRAM_BYTES, require_room
from vdla.hw.spec.numerics import BYTE_BITS
from vdla.hw.spec.sdram import AnyMemory
from vdla.hw.spec.target import Target
from vdla.hw.spec.target_files import target_of
from vdla.runtime.devices.registry import device_of, require_device
from vdla.runtime.module import file
from vdla.runtime.module.plan import HostStep, LaunchStep, ModuleError, Plan, Value, type_text
from vdla.runtime.samples import InputError
from vdla.runtime.samples.declared import static
from vdla.runtime.samples.fit import Fitted, fit
from vdla.runtime.samples.given import given_of
from vdla.runtime.session.repeated import run_each
from vdla.runtime.session.report import Report, report, table
from vdla.runtime.session.session import Outcome, Session
from vdla.runtime.session.states import first_states, real_states, states_of
from vdla.runtime.session.summary import Summary, summary_of

if TYPE_CHECKING:
    from vdla.compiler.codegen.tuned.best_records import Tuning
    from vdla.compiler.graph.source import ModelSource
    from vdla.compiler.network.source import Source
    from vdla.explore.sweep.results import Results
    from vdla.explore.sweep.run import Progress
    from vdla.prove.proof import Proof
    from vdla.runtime.devices.rtl.waves import Waves


@dataclass(frozen=True)
class Run:
    """The result of a run.

    Attributes:
        outputs: arrays by name, which other libraries can take over by DLPack without a copy.
        report: the cycles of each layer.
        summary: what matters of it; as text, what `vdla run` prints.
        outcome: the launches; on the cycle device with the timing of every instruction.
        memory: with which the cycles of layers were counted.
        waveforms: the waveforms that were written, in the order of the launches.
        notes: what was done to the inputs that were given, such as images that were cropped.
    """

    outputs: Mapping[str, np.ndarray]
    report: Report
    summary: Summary
    outcome: Outcome
    memory: AnyMemory
    waveforms: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return what ran where, in how many cycles, and the types of the outputs."""
        summary = self.summary
        cycles = "" if summary.cycles is None else f", {summary.cycles:,} cycles"
        runs = "" if summary.runs == 1 else f", {summary.runs} runs"
        outputs = ", ".join(f"{name} {type_text(x.shape, x.dtype)}" for name, x in self.outputs.items())
        return f"<vdla.Run {summary.network} on {summary.target}, {summary.device}{cycles}{runs}: {outputs}>"

    def table(self) -> str:
        """Return the report of every layer as text."""
        return table(self.report)


class Module:
    """A compiled network.

    Args:
        plan: its streams, weights, steps and memory plan.
        tuning: how tuned records served when it was compiled; None where it was loaded.
    """

    def __init__(self, plan: Plan, tuning: "Tuning | None" = None) -> None:
        self.plan, self.tuning = plan, tuning
        self._sessions: dict[tuple[str, AnyMemory], Session] = {}
        self._states = first_states(plan)

    def __repr__(self) -> str:
        """Return what it is, what it takes and what it makes."""
        takes, makes = (
            ", ".join(f"{name} {value}" for name, value in values.items()) or "nothing"
            for values in (self.inputs, self.outputs)
        )
        count = len(self.plan.launches)
        launches = f"{count} launch{'es' * (count != 1)}"
        return f"<vdla.Module {self.plan.name} on {self.plan.target.name}, {launches}: {takes} -> {makes}>"

    @property
    def inputs(self) -> Mapping[str, Value]:
        """The types of what a run takes, by name, in order; each has a `shape` and a `dtype`."""
        return self.plan.given

    @property
    def outputs(self) -> Mapping[str, Value]:
        """The types of what a run makes, by name, in order; an extent that only a run tells is -1."""
        return self.plan.results

    @property
    def states(self) -> Mapping[str, np.ndarray]:
        """What the next run takes from the run before, by the name of the input, as numbers: float32 arrays
        for states that are kept as int8."""
        return real_states(self.plan, self._states)

    def reset(self, states: Mapping[str, object] | None = None) -> None:
        """Set the states that the next run takes, on whatever device it runs.

        >>> module.reset()                          # zeros
        >>> module.reset(prefill.states)            # of another module of the same network

        Args:
            states: an array for each state that is not zero; a state of int8 takes the nearest numbers that
                it can hold.

        Raises:
            ModuleError: a name is no state, or an array has another shape, or holds what is not finite.
        """
        self._states = states_of(self.plan, states or {})

    def run(
        self,
        inputs: object = None,
        device: str = "functional",
        *,
        image_scale: object = None,
        clock_hz: float | None = None,
        memory: AnyMemory | None = None,
        waves: "Waves | None" = None,
        progress: Callable[[HostStep | LaunchStep], None] | None = None,
        **named: object,
    ) -> Run:
        """Run the network on a device; the module stays in its DRAM for the next run.

        If the module has states, the run takes them from the run before, and leaves them for the next.
        Several samples are then one sequence. A run that fails leaves the states as they were.

        >>> module.run(image)                       # a network of one input
        >>> module.run({"image": image})
        >>> module.run(image=image)
        >>> module.run("cat.png", image_scale="imagenet")

        Args:
            inputs: an array for a network of one input, a mapping from inputs to arrays, a file, an image of
                Pillow, or a list of samples; see `vdla.runtime.samples.given`. Elements are converted where
                the input's type holds them. Several samples run in turn, and their outputs are joined along
                the first axis where that is a batch of 1, else along a new axis.
            device: "functional", "cycle", "rtl", "remote://host:port" of a server, "board:FOLDER" with the
                folder of a build, or "board:sim", the simulated board.
            image_scale: converts pixels to numbers: "imagenet", "clip", "unit" (0 to 1), "signed" (-1 to 1),
                "raw" (0 to 255), or mean and standard deviation.
            clock_hz: converts cycles to time; None: the board's clock, else the clock of the module's target.
            memory: of a timed device; None: the target's memory, or the board's. It affects cycles only.
            waves: waveforms of the launches, for the device "rtl"; see `vdla.runtime.devices.rtl.waves`.
            progress: called before each step.
            named: inputs by name, in place of `inputs`; a mapping where a name is also that of an argument.

        Raises:
            InputError: an input is missing, unknown, of a wrong shape, with elements that its type does not
                hold, or in the memory of another device.
            ModuleError: an input is not finite.
            DeviceError: an unknown device, waveforms of another device than "rtl", or a refusal by a server.
            DeviceLostError: a server or a board is gone; the next run makes a new device.
            ToolError: the device needs what is not installed.
        """
        require_device(device)
        fitted = self._fitted(inputs, named, image_scale)
        session = self.session(device, memory) if waves is None else self._recorded(device, memory, waves)
        outcome = run_each(session, fitted, progress, self._states)
        self._states = outcome.states
        return self._reported(outcome, session.device, device, memory, clock_hz, fitted.notes)

    def _reported(
        self,
        outcome: Outcome,
        device: object,
        name: str,
        memory: AnyMemory | None,
        clock_hz: float | None,
        notes: tuple[str, ...],
    ) -> Run:
        """Return an outcome on the device of a name with its report; see `run`."""
        clock_hz = clock_hz or getattr(device, "clock_hz", None)
        waveforms = tuple(getattr(device, "waveforms", ()))
        used: AnyMemory = getattr(device, "memory", memory or self.plan.target.memory)
        run_report = report(self.plan, outcome, name, clock_hz, used)
        summary = summary_of(self.plan, run_report, clock_hz, clock_note(self.plan.target))
        return Run(outcome.outputs, run_report, summary, outcome, used, waveforms, notes)

    def _fitted(self, inputs: object, named: Mapping[str, object], image_scale: object) -> Fitted:
        """Return what was given for a run as samples."""
        if inputs is not None and named:
            raise InputError(
                f"inputs are given twice, the second time as {', '.join(named)}; pass a mapping of all of "
                "them"
            )
        given = given_of(named if inputs is None else inputs, image_scale)
        return fit(given, {name: static(value.shape, value.dtype) for name, value in self.inputs.items()})

    def prove(
        self, *, seed: int | None = None, progress: Callable[[str], None] = lambda text: None
    ) -> "Proof":
        """Prove that the streams compute the module's graph of integer operators for every input.

        >>> proof = module.prove()
        >>> proof.proved, proof.bound, proof.axioms

        Args:
            seed: of the random elements, to repeat a proof; None: from the operating system.
            progress: called with a text for each step of the work.

        Returns:
            The proof. If it is not `proved`, its `difference` names the layer, the element and the
            instruction.

        Raises:
            ModuleError: the module carries no graph.
            GraphError: the graph that it carries is invalid.
        """
        from vdla.prove.compare import prove
        from vdla.prove.graphs import carried_graphs

        return prove(self.plan, carried_graphs(self.plan), seed=seed, progress=progress)

    def forecast(self) -> Report:
        """Return the report of a run that does not happen: cycles do not depend on data, so the cycles of all
        launches are known; times of the host are not.

        Raises:
            ModuleError: its DRAM takes more than `DRAM_BYTES`.
        """
        return report(self.plan, self.rehearse(), "cycle")

    def rehearse(self, memory: AnyMemory | None = None) -> Outcome:
        """Return the launches of a run that does not happen, with the timing of every instruction; errors as
        in `forecast`.

        Args:
            memory: that cycles are counted with; None: the target's memory.
        """
        options = {"log": True, "arithmetic": False}
        return self._session("cycle", self._target(memory), options, verifies=False).rehearse()

    def summary(self) -> Summary:
        """Return what matters of the module; errors as in `forecast`."""
        return summary_of(self.plan, self.forecast(), None, clock_note(self.plan.target))

    def session(self, device: str, memory: AnyMemory | None = None) -> Session:
        """Return the session of the module on a device; the first call places the module in DRAM.

        Raises:
            ModuleError: its DRAM takes more than `DRAM_BYTES`.
            DeviceError: a server refuses it, or cannot be reached.
        """
        target = self._target(memory)
        key = device, target.memory
        if key not in self._sessions or self._sessions[key].device.lost:
            options = {"log": True} if device == "cycle" else {}
            self._sessions[key] = self._session(device, target, options)
        return self._sessions[key]

    def _recorded(self, device: str, memory: AnyMemory | None, waves: "Waves") -> Session:
        """Return a new session, whose device writes waveforms."""
        if device != "rtl":
            raise DeviceError(f"device {device} writes no waveforms; device rtl does")
        return self._session(device, self._target(memory), {"waves": waves})

    def _target(self, memory: AnyMemory | None) -> Target:
        return replace(self.plan.target, memory=memory or self.plan.target.memory)

    def _session(
        self, device: str, target: Target, options: Mapping[str, object], *, verifies: bool = True
    ) -> Session:
        subject = f"{self.plan.name} on a device: its DRAM takes"
        require_room(self.plan.dram_bytes, DRAM_BYTES, subject, ModuleError)
        session_device = device_of(device, target, self.plan.dram_bytes, **options)
        return Session(session_device, self.plan, verifies=verifies)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the module to a file."""
        file.save(self.plan, path)


def load(path: str | os.PathLike[str]) -> Module:
    """Read a module from a file. Neither the compiler nor `onnx` is imported."""
    return Module(file.load(path))


def compile(
    model: "ModelSource",
    target: Target | AcceleratorConfig | str | Path = "default",
    *,
    samples: object = None,
    image_scale: object = None,
    percentile: float | None = None,
    float_layers: Sequence[str] = (),
    float_share: float = 0.0,
    quality: str | float = "balanced",
    weight_bits: int = BYTE_BITS,
    shapes: Mapping[str, Sequence[int]] | None = None,
    fixed: Mapping[str, float] | None = None,
    inputs: Sequence[str] = (),
    outputs: Sequence[str] = (),
    states: Mapping[str, str] | None = None,
    tuning: str | os.PathLike[str] | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> Module:
    """Compile an ONNX model.

    Args:
        model: an ONNX file, its bytes, or a model of the `onnx` package.
        target: a target or a configuration, the name of a preset, or a file.
        samples: inputs that calibrate a float network, in all forms of `Module.run`, or a folder. They tell
            the shapes of dynamic inputs, too; a batch is 1 then.
        image_scale: converts the pixels of image files to numbers, as for `Module.run`.
        percentile: of each activation's magnitudes that its scale holds; None: the range of least cost.
        float_layers: names of layers that stay in float.
        float_share: percent of the multiply-accumulates whose layers may stay in float, the costliest first.
        quality: signal to noise of every output on the samples in decibels; "balanced" is 10, "exact" 30.
            Layers stay in float until it is reached; with "fast", none does. `Module.summary` tells it.
        weight_bits: of the weights of a float network, 2 to 8. Accelerators with the extension
            `narrow_weights` load weights of 4 and of 2 bits in a half and in a quarter of the time.
        shapes: of dynamic inputs, where samples do not tell them, or tell another batch than is wanted.
        fixed: inputs of the model that become constants, each with the number that all its elements are.
        inputs, outputs: values between which the model is cut; none: the model's inputs and outputs.
        states: inputs that take the value of an output of the run before, each with that output, such as
            {"past_*": "present_*"}; a `*` stands for the same text in both names. Samples that leave the
            states out are runs one after the other. See `Module.reset`.
        tuning: a log of `vdla tune`, whose best choices are used; "none": no log; None: the records that
            ship with the kit. `Module.tuning` tells for which layers there was none.
        progress: called with a text for each step of the work.

    Raises:
        GraphError: the model cannot be imported or cut; a float network has no samples; unknown quality.
        InputError: samples cannot be read, do not fit the network, or are in the memory of another device.
        TuneError: the log cannot be read, or a line before the last is damaged.
    """
    from vdla.compiler.graph.quantisation.options import Options, quality_db
    from vdla.compiler.graph.source import Section
    from vdla.compiler.network.source import Source

    options = Options(percentile, tuple(float_layers), float_share, quality_db(quality), weight_bits)
    section = Section(
        tuple(inputs), tuple(outputs), tuple((fixed or {}).items()), tuple((states or {}).items())
    )
    given = None if samples is None else given_of(samples, image_scale)
    return _compiled(Source(model, given, options, shapes, section), target, tuning, progress)


def _compiled(
    source: "Source",
    target: Target | AcceleratorConfig | str | Path,
    tuning: str | os.PathLike[str] | None,
    progress: Callable[[str], None],
) -> Module:
    """Return the module of a source; see `compile`."""
    from vdla.compiler.codegen.tuned.best_records import records_of
    from vdla.compiler.network.plan_cache import cached_tuned_plan

    compiled = cached_tuned_plan(source, target_of(target), records_of(tuning), progress)
    return Module(compiled.plan, compiled.tuning)


def sweep(
    specification: Mapping[str, Any] | str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    processes: int | None = None,
    cluster: str | None = None,
    resource: str | None = None,
    progress: "Callable[[Progress], None]" = lambda progress: None,
) -> "Results":
    """Compile and run workloads on every accelerator of a space; go on where an interrupted sweep stopped.

    Args:
        specification: a TOML file, or a mapping of its tables; see `vdla.explore.sweep.specification`.
        output: the folder of the results.
        processes: worker processes; None: one for each processor.
        cluster: address of the scheduler of a Dask cluster that measures the points.
        resource: name of a Dask resource of which each point takes 1; None: any worker measures.
        progress: called at the start and after each point.

    Raises:
        SweepError: naming what is wrong with the specification or the folder.
        ToolError: a package of the extra `explore` or `cluster` is missing.
    """
    from vdla.explore.sweep.results import Results
    from vdla.explore.sweep.run import backend_of, planned, silicon_for
    from vdla.explore.sweep.run import sweep as run
    from vdla.explore.sweep.specification import from_values, read

    for package in ("pyarrow", "vl_convert"):
        require_package(package, "vdla.sweep")
    wanted = from_values(specification) if isinstance(specification, Mapping) else read(Path(specification))
    folder = Path() if isinstance(specification, Mapping) else Path(specification).parent
    workers = backend_of(processes, cluster, resource)
    run(planned(wanted, folder, silicon_for(wanted)), Path(output), workers, progress)
    return Results(Path(output))
