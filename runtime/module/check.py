"""Consistency of a plan: names are defined before use, and tensors are large enough."""

from collections.abc import Iterable, Set
from math import prod

import numpy as np

from vdla.runtime.host.evaluate import attributes_of
from vdla.runtime.module.plan import Crossing, HostStep, LaunchStep, ModuleError, Plan
from vdla.runtime.stream.builder import UOP_TENSOR, Stream


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
            known |= {one.value for one in step.unpacks}
    _check_known(plan.outputs, known, "the network gives out")


def _check_stream(name: str, stream: Stream, tensors: Set[str]) -> None:
    _check_known(stream.tensors, tensors, f"stream {name} has tensor")
    for label, positions in (*stream.tensors.items(), *stream.labels.items()):
        _require(
            positions.ndim == 1
            and positions.dtype.kind in "iu"
            and not np.any((positions < 0) | (positions >= stream.count)),
            f"stream {name} has {stream.count} instructions, and those of {label} lie outside it",
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
    _check_known([one.value for one in step.packs], known, f"{step.stream} takes in")
    for one in (*step.packs, *step.unpacks):
        _check_crossing(plan, one)


def _check_crossing(plan: Plan, one: Crossing) -> None:
    _check_known([one.tensor], plan.tensors, f"{one.value} stands in tensor")
    stack = one.layout.stack
    _require(
        not stack or (one.layout.batch == 1 and prod(one.layout.shape[:-1]) % stack == 0),
        f"{one.value} of shape {one.layout.shape} is {stack} matrices of {one.layout.batch} rows at once",
    )
    _require(
        one.layout.size <= plan.tensors[one.tensor],
        f"{one.value} takes {one.layout.size} bytes, and tensor {one.tensor} has {plan.tensors[one.tensor]}",
    )


def _check_known(names: Iterable[str], known: Iterable[str], subject: str) -> None:
    for name in names:
        _require(name in known, f"{subject} {name!r}, which is not there")


def _require(holds: bool, problem: str) -> None:
    if not holds:
        raise ModuleError(f"{problem}; compile the network again")
