"""Running a module on a device."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from vdla.hw.spec.limits import HOST_BYTES, require_room
from vdla.runtime.device import Device, RunResult
from vdla.runtime.exchange import array_of, free
from vdla.runtime.host.evaluate import OperatorError, evaluate
from vdla.runtime.host.onnx_runtime import PART, prepare
from vdla.runtime.module.plan import Crossing, HostStep, LaunchStep, ModuleError, Plan, Value, type_text
from vdla.runtime.session.launch import Launch
from vdla.runtime.session.placement import place_plan
from vdla.sim.timing.result import Timing

Values = dict[str, np.ndarray]
Progress = Callable[[HostStep | LaunchStep], None]


@dataclass(frozen=True)
class Ran:
    """A completed launch.

    Attributes:
        launch: the stream in the device's DRAM.
        timing: when its instructions ran; None on a device that does not tell.
    """

    step: LaunchStep
    launch: Launch
    result: RunResult
    timing: Timing | None


@dataclass(frozen=True)
class Outcome:
    """The outcome of a module's run.

    Attributes:
        outputs: by name.
        launches: in order.
        seconds: wall time on this machine.
        host_seconds: wall time of each operator on the host, in order; empty if they did not run.
        copy_seconds: wall time of changing layouts and copying between the host and the device's DRAM.
        ran: the whole module ran; False: its launches alone, on whatever stood in DRAM.
        runs: how many runs it stands for; see `vdla.runtime.session.repeated`.
        states: of the module after the last run; see `vdla.runtime.session.states`.
    """

    outputs: Values
    launches: tuple[Ran, ...]
    seconds: float
    host_seconds: tuple[float, ...] = ()
    copy_seconds: float = 0.0
    ran: bool = True
    runs: int = 1
    states: Values = field(default_factory=dict)

    @property
    def cycles(self) -> int | None:
        """Cycles of the accelerator; None on untimed devices."""
        known = [ran.result.cycles for ran in self.launches if ran.result.cycles is not None]
        return sum(known) if len(known) == len(self.launches) else None


class Session:
    """A module in a device's DRAM, ready to run any number of times.

    Args:
        device: of the module's configuration.
        verifies: verify each stream before its first run.

    Raises:
        ModuleError: the device is another accelerator; onnxruntime refuses a part on the host; or a stream
            reaches outside the tensors, weights and micro-ops that the plan gives it.
        DeviceError: its DRAM is too small.
        ToolError: parts on the host need onnxruntime, which is not installed.
    """

    def __init__(self, device: Device, plan: Plan, *, verifies: bool = True) -> None:
        if device.config.digest != plan.config.digest:
            raise ModuleError(
                f"module {plan.name} was compiled for the configuration {plan.config.name} "
                f"({plan.config.digest[:12]}), and the device "
                f"is {device.config.name} ({device.config.digest[:12]}); compile it for that one, or run "
                "it on the other"
            )
        self.device, self.plan = device, plan
        _prepare_parts(plan)
        placed = place_plan(device, plan, verifies=verifies)
        self._tensors, self._launches = placed.tensors, placed.launches

    def run(self, inputs: Mapping[str, object], *, progress: Progress | None = None) -> Outcome:
        """Run the network.

        Args:
            inputs: an array for each input, of its shape and type, of any library; see
                `vdla.runtime.exchange`.
            progress: called before each step.

        Raises:
            ModuleError: an input is missing, unknown, of another shape or type, or not finite; an operator
                fails on the host.
        """
        began = time.perf_counter()
        values = _OnHost({**self.plan.constants, **checked(inputs, self.plan.inputs)})
        launches, host, copies = [], [], 0.0
        for step in self.plan.steps:
            if progress is not None:
                progress(step)
            if isinstance(step, HostStep):
                host.append(_seconds(partial(_run_host, step, values)))
            else:
                copies += _seconds(partial(self._write, step, values))
                launches.append(self.launch(step))
                copies += _seconds(partial(self._read, step, values))
        outputs = {name: self._writable(name, values[name]) for name in self.plan.outputs}
        return Outcome(outputs, tuple(launches), time.perf_counter() - began, tuple(host), copies)

    def rehearse(self) -> Outcome:
        """Run the launches without the host's operators and without inputs. The cycles are as in every
        run, since they do not depend on data, and there are no outputs."""
        return Outcome({}, tuple(map(self.launch, self.plan.launches)), 0.0, ran=False)

    def _writable(self, name: str, array: np.ndarray) -> np.ndarray:
        """Return an output that whoever gets it may write to."""
        return array.copy() if name in self.plan.constants else free(array)

    def launch(self, step: LaunchStep) -> Ran:
        """Run a launch on what stands in DRAM."""
        launch = self._launches[step.stream]
        result = launch.run()
        return Ran(step, launch, result, getattr(self.device, "timing", None))

    def _address(self, crossing: Crossing) -> int:
        """Return the address of a value in DRAM."""
        return self._tensors[crossing.tensor].address + crossing.begin

    def _write(self, step: LaunchStep, values: "_OnHost") -> None:
        for crossing in step.packs:
            self.device.copy_in(self._address(crossing), _packed(crossing, values[crossing.value]))

    def _read(self, step: LaunchStep, values: "_OnHost") -> None:
        for crossing in step.unpacks:
            copied = self.device.copy_out(self._address(crossing), crossing.layout.size)
            values.add(crossing.value, crossing.layout.unpack(copied))


def _seconds(work: Callable[[], None]) -> float:
    """Do some work; return the wall time that it took."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _prepare_parts(plan: Plan) -> None:
    """Build onnxruntime's sessions before the first run."""
    for step in plan.host_steps:
        model = plan.constants.get(step.inputs[0]) if step.op == PART and step.inputs else None
        if model is not None:
            try:
                prepare(model)
            except ValueError as error:
                raise ModuleError(f"{step.op} {step.name} on the host: {error}") from error


def checked(inputs: Mapping[str, object], wanted: Mapping[str, Value]) -> Values:
    """Return the inputs as arrays; see `vdla.runtime.exchange` for what they may be.

    Raises:
        ModuleError: an input is missing, unknown, of another shape or type, not finite, or in the memory of
            another device.
    """
    if set(inputs) != set(wanted):
        raise ModuleError(
            f"the network takes {', '.join(f'{name}: {value}' for name, value in wanted.items())}; it was "
            f"given {', '.join(inputs) or 'nothing'}"
        )
    values = {name: _array(name, array) for name, array in inputs.items()}
    for name, value in wanted.items():
        array = values[name]
        if array.shape != value.shape or array.dtype != value.dtype:
            raise ModuleError(f"input {name} is {type_text(array.shape, array.dtype)}, not {value}")
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ModuleError(
                f"input {name} holds {np.count_nonzero(~np.isfinite(array))} values that are not finite"
            )
    return values


def _array(name: str, values: object) -> np.ndarray:
    try:
        return array_of(values)
    except ValueError as error:
        raise ModuleError(f"input {name} {error}") from error


def _packed(crossing: Crossing, array: np.ndarray) -> np.ndarray:
    """Return a value in the layout of DRAM."""
    if array.shape != crossing.layout.shape or array.dtype != np.int8:
        given, wanted = type_text(array.shape, array.dtype), Value(crossing.layout.shape, "int8")
        raise ModuleError(
            f"{crossing.value} is {given}, and the accelerator takes {wanted}; compile the network again"
        )
    return crossing.layout.pack(array)


class _OnHost:
    """The values of a run on the host, by name.

    Attributes:
        size: what they take in bytes.
    """

    def __init__(self, values: Values) -> None:
        self._values = values
        self.size = sum(array.nbytes for array in values.values())

    def __getitem__(self, name: str) -> np.ndarray:
        return self._values[name]

    def add(self, name: str, array: np.ndarray) -> None:
        """Keep a value."""
        before = self._values.get(name)
        self.size += array.nbytes - (0 if before is None else before.nbytes)
        self._values[name] = array


def _run_host(step: HostStep, values: _OnHost) -> None:
    try:
        results = evaluate(step.op, [values[name] if name else None for name in step.inputs], step.attributes)
    except OperatorError as error:
        raise ModuleError(f"{step.op} {step.name} on the host: {error}") from error
    who = f"{step.op} {step.name}"
    if len(results) < len(step.outputs):
        raise ModuleError(f"{who} on the host: it makes {len(results)} outputs, not {len(step.outputs)}")
    for name, array in zip(step.outputs, results, strict=False):
        values.add(name, array)
    require_room(values.size, HOST_BYTES, f"up to {who}, the tensors on the host take", ModuleError)
