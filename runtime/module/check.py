"""Checks of a plan: names are defined before use, tensors are large enough, contents are within limits."""

from collections.abc import Iterable, Set
from math import prod

import numpy as np

from vdla.hw.spec.limits import DRAM_BYTES, TENSOR_BYTES, require_room
from vdla.runtime.host.dtypes import TENSOR_DTYPES, UNKNOWN
from vdla.runtime.host.evaluate import attributes_of, check_types
from vdla.runtime.layout import IMAGE_RANK, Layout
from vdla.runtime.module.plan import Crossing, HostStep, LaunchStep, ModuleError, Plan, Value
from vdla.runtime.stream.builder import UOP_TENSOR, Stream
from vdla.runtime.windows import Windows

NUMBERS = "biuf"


def check(plan: Plan) -> None:
    """Check that every name is defined before it is used and every tensor is large enough.

    Raises:
        ModuleError: naming what is wrong with which stream, step or value.
        OperatorError: a step's operator is unknown.
    """
    for name, size in plan.tensors.items():
        _require(size > 0, f"tensor {name} has {size} bytes")
    for name in (*plan.tensors, *plan.weights):
        meanings = (name in plan.tensors) + (name in plan.weights) + (name == UOP_TENSOR)
        _require(meanings == 1, f"{name!r} is the name of two tensors")
    tensors = {*plan.tensors, *plan.weights, UOP_TENSOR}
    for name, stream in plan.streams.items():
        _check_stream(name, stream, tensors)
    known = {*plan.inputs, *plan.constants}
    for step in plan.steps:
        if isinstance(step, HostStep):
            _check_host_step(step, known)
            known |= set(step.outputs)
        else:
            _check_launch(plan, step, known)
            known |= {crossing.value for crossing in step.unpacks}
    _check_known(plan.outputs, known, "the network gives out")
    _check_states(plan)


def _check_states(plan: Plan) -> None:
    _check_known(plan.states, plan.inputs, "the network keeps")
    for name, state in plan.states.items():
        _check_known([state.output], plan.outputs, f"state {name} takes")
        before, after = plan.inputs[name], plan.outputs[state.output]
        _require(before == after, f"state {name} is {before}, and takes {state.output}, which is {after}")


def _check_stream(name: str, stream: Stream, tensors: Set[str]) -> None:
    _check_known(stream.tensors, tensors, f"stream {name} has tensor")
    for label, positions in (*stream.tensors.items(), *stream.labels.items()):
        _require(
            positions.ndim == 1
            and positions.dtype.kind in "iu"
            and not np.any((positions < 0) | (positions >= stream.count)),
            f"stream {name} has {stream.count} instructions, and {label} has positions outside it",
        )


def _check_host_step(step: HostStep, known: set[str]) -> None:
    _check_known([name for name in step.inputs if name], known, f"{step.op} {step.name} reads")
    wanted = attributes_of(step.op)
    _require(
        sorted(wanted) == sorted(step.attributes),
        f"{step.op} {step.name} has attributes {', '.join(step.attributes) or 'none'}; it takes "
        f"{', '.join(wanted) or 'none'}",
    )


def _check_launch(plan: Plan, step: LaunchStep, known: set[str]) -> None:
    _check_known([step.stream], plan.streams, "a step runs stream")
    _check_known(
        [layer.label for layer in step.layers if layer.label],
        plan.streams[step.stream].labels,
        f"{step.stream} has a layer",
    )
    _check_known([crossing.value for crossing in step.packs], known, f"{step.stream} takes in")
    for crossing in (*step.packs, *step.unpacks, *_results(step)):
        _check_crossing(plan, crossing)
    for layer in step.layers:
        _check_known(layer.scratch, plan.tensors, f"{layer.name} writes tensor")


def _results(step: LaunchStep) -> list[Crossing]:
    """Return what the layers of a launch compute, where it stands in DRAM."""
    return [layer.result for layer in step.layers if layer.result is not None]


def _check_crossing(plan: Plan, crossing: Crossing) -> None:
    _check_known([crossing.tensor], plan.tensors, f"{crossing.value} stands in tensor")
    stack = crossing.layout.stack
    _require(
        not stack or (crossing.layout.batch == 1 and prod(crossing.layout.shape[:-1]) % stack == 0),
        f"{crossing.value} of shape {crossing.layout.shape} is {stack} matrices of "
        f"{crossing.layout.batch} rows at once",
    )
    _require(
        crossing.begin + crossing.layout.size <= plan.tensors[crossing.tensor],
        f"{crossing.value} takes {crossing.layout.size} bytes, and tensor {crossing.tensor} has "
        f"{plan.tensors[crossing.tensor] - crossing.begin}"
        f"{f' from byte {crossing.begin} on' * bool(crossing.begin)}",
    )


def _check_known(names: Iterable[str], known: Iterable[str], subject: str) -> None:
    for name in names:
        _require(name in known, f"{subject} {name!r}, which is not there")


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ModuleError(f"{problem}; compile the network again")


def check_contents(plan: Plan) -> None:
    """Check types of attributes and arrays, and sizes of all that a run allocates.

    Raises:
        ModuleError: naming the step, value or array.
        OperatorError: a step's operator is unknown, or does not take an attribute.
    """
    require_room(plan.dram_bytes, DRAM_BYTES, "its tensors, weights and streams take", ModuleError)
    for name, value in (*plan.inputs.items(), *plan.outputs.items()):
        check_value(name, value)
    for name, value in plan.inputs.items():
        _require(
            UNKNOWN not in value.shape,
            f"input {name} is {value}; only outputs may have an extent that is known after a run alone",
        )
    for name, values in plan.constants.items():
        _require(
            str(values.dtype) in TENSOR_DTYPES,
            f"constant {name} holds {values.dtype}; there are {', '.join(TENSOR_DTYPES)}",
        )
    for name, values in plan.weights.items():
        _require(values.dtype.kind in NUMBERS, f"weight {name} holds {values.dtype}, not numbers")
    for name, stream in plan.streams.items():
        _require(
            stream.uops.ndim == 1, f"the micro-ops of stream {name} have {stream.uops.ndim} dimensions, not 1"
        )
    for step in plan.steps:
        _check_step(step)


def check_value(name: str, value: Value) -> None:
    """Refuse an input or output that takes more than `TENSOR_BYTES`."""
    size = prod(size for size in value.shape if size != UNKNOWN) * np.dtype(value.dtype).itemsize
    require_room(size, TENSOR_BYTES, f"{name} is {value}, which takes", ModuleError)


def _check_step(step: HostStep | LaunchStep) -> None:
    if isinstance(step, HostStep):
        check_types(step.op, step.attributes)
        return
    for crossing in (*step.packs, *step.unpacks, *_results(step)):
        _check_layout(crossing)
    for crossing in (*step.unpacks, *_results(step)):
        _require(
            crossing.layout.windows is None,
            f"{crossing.value} is read back in windows, which cannot be undone",
        )


def _check_layout(crossing: Crossing) -> None:
    layout, rank = crossing.layout, len(crossing.layout.shape)
    _require(rank > 0, f"{crossing.value} has a layout without dimensions")
    windows = layout.windows
    if windows is None:
        return
    _require(
        rank == IMAGE_RANK,
        f"{crossing.value} is read in windows, and has {rank} dimensions, not {IMAGE_RANK}",
    )
    _require(
        windows.rows * layout.shape[1] <= windows.column and _holds_windows(layout, windows),
        f"lines of {crossing.value}, {list(layout.shape)}, do not hold {windows}",
    )
    require_room(
        windows.room(layout.shape, layout.block), TENSOR_BYTES, f"packing {crossing.value} takes", ModuleError
    )


def _holds_windows(layout: Layout, windows: Windows) -> bool:
    """Whether lines that are stored as they are hold all windows, each in a single element."""
    single = windows.elements == layout.batch == 1
    return not windows.pitch or (single and windows.window_bytes(layout.block) <= windows.pitch)
