"""Random networks compiled by a compiler with a planted fault, run and proved, in a fork of this process."""

import hashlib
import importlib
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from break_streams import FEW, Inputs, random_subject, results

from proving.forks import MOST_FRAMES, ForkError, ForkTimeoutError, in_fork
from proving.reloading import change, lines_run, unload
from vdla.compiler.graph.interpret import interpret
from vdla.compiler.graph.nodes import Graph
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.target import Target
from vdla.runtime.module.plan import Plan

FOLDERS = tuple(f"compiler/{name}" for name in ("codegen", "ir", "network", "operands", "tasks", "te"))
"""Where faults are planted: the folders that come after import and quantisation."""
SECONDS = 60  # processor time of a fork
ENOUGH = 2  # networks with wrong results, or that cannot be compiled, after which no other is compiled
MOST_NETWORKS = 6  # that are compiled for a fault
SLOWEST = 1500  # instructions of a network
PROVED, REFUSED, FAILED, TIMEOUT = "proved", "refused", "failed", "timeout"


@dataclass(frozen=True)
class Sample:
    """A network, and what the compiler without a fault makes of it.

    Attributes:
        inputs, expected: some inputs, and the results that the integer operators have for each.
        plan: a digest of its plan.
        lines: lines of the compiler that its compilation runs.
        instructions: of its streams.
    """

    seed: int
    lowered: Graph
    target: Target
    inputs: tuple[Inputs, ...]
    expected: tuple[list[bytes], ...]
    plan: str
    lines: frozenset[tuple[str, int]]
    instructions: int


@dataclass(frozen=True)
class Trial:
    """What came of a network that a compiler with a fault compiled to another plan.

    Attributes:
        result: PROVED, REFUSED, or FAILED where the compiler fails.
        changed: on some inputs, results are wrong.
        stopped: on some inputs, the device refuses the stream.
        unsafe: the verifier refuses the stream.
        difference: what the proof names, or the failure.
    """

    seed: int
    result: str
    changed: bool = False
    stopped: bool = False
    unsafe: bool = False
    difference: str = ""

    @property
    def failed(self) -> bool:
        """Whether the compiler fails."""
        return self.result == FAILED


def samples(count: int) -> list[Sample]:
    """Return as many random networks: they run most lines for few instructions. Small networks come first."""
    candidates = [each for each in map(_sample, range(3 * count)) if each and each.instructions <= SLOWEST]
    chosen: list[Sample] = []
    known: set[tuple[str, int]] = set()
    while candidates and len(chosen) < count:
        best = max(candidates, key=lambda each: (len(each.lines - known), -each.instructions))
        candidates.remove(best)
        known |= best.lines
        chosen.append(best)
    return sorted(chosen, key=lambda each: each.instructions)


def _sample(seed: int) -> Sample | None:
    subject = random_subject(seed)
    if subject is None:
        return None
    inputs = tuple(subject.inputs(FEW))
    expected = tuple(
        [array.tobytes() for array in interpret(subject.lowered, each).values()] for each in inputs
    )
    lowered, target = subject.lowered, subject.plan.target
    lines = in_fork(partial(_lines_of, lowered, target), 10 * SECONDS)
    instructions = sum(len(stream.words) for stream in subject.plan.streams.values())
    return Sample(seed, lowered, target, inputs, expected, digest_of(subject.plan), lines, instructions)


def _lines_of(lowered: Graph, target: Target) -> frozenset[tuple[str, int]]:
    unload(FOLDERS)
    return frozenset(lines_run(FOLDERS, lambda: _compiler()(lowered, target)))


def _compiler() -> Any:
    """Return the function that compiles a graph for a target, of the compiler that is loaded now."""
    stages = importlib.import_module("vdla.compiler.network.stages")
    by_estimate = importlib.import_module("vdla.compiler.codegen.choose").by_estimate
    return lambda lowered, target: stages.plan_of(lowered, target, choose=by_estimate)


def digest_of(plan: Plan) -> str:
    """Return what tells a plan from others (hex): streams, weights, tensors, steps."""
    total = hashlib.sha256(repr((plan.steps, plan.tensors, list(plan.outputs))).encode())
    for name, stream in plan.streams.items():
        total.update(name.encode() + stream.words.tobytes() + stream.uops.tobytes())
    for name, array in (*plan.weights.items(), *plan.constants.items()):
        total.update(f"{name} {array.shape} {array.dtype} ".encode() + np.ascontiguousarray(array).tobytes())
    return total.hexdigest()


def trials(path: str, source: bytes, networks: Sequence[Sample]) -> tuple[list[Trial], str]:
    """Return what comes of networks that a changed compiler compiles to other plans, and "", or why the rest
    is unknown: TIMEOUT, or how the process ended.

    Args:
        path, source: of the changed module.
    """
    try:
        return in_fork(partial(_trials, path, source, networks), SECONDS), ""
    except ForkTimeoutError:
        return [], TIMEOUT
    except ForkError as error:
        return [], str(error)


def _trials(path: str, source: bytes, networks: Sequence[Sample]) -> list[Trial]:
    np.seterr(all="ignore")
    unload(FOLDERS)
    change(path, source)
    try:
        compile_ = _compiler()
        proof_of = importlib.import_module("proving.check").proof_of
    except Exception:  # whatever a broken module raises
        return [Trial(-1, FAILED, difference=traceback.format_exc(MOST_FRAMES))]
    outcomes: list[Trial] = []
    for sample in networks[:MOST_NETWORKS]:
        trial = _trial(sample, compile_, proof_of)
        outcomes += [] if trial is None else [trial]
        if any(sum(getattr(each, what) for each in outcomes) >= ENOUGH for what in ("changed", "failed")):
            break
    return outcomes


def _trial(sample: Sample, compile_: Any, proof_of: Any) -> Trial | None:
    """Return what comes of a network; None if its plan stays the same."""
    try:
        plan = compile_(sample.lowered, sample.target)
        if digest_of(plan) == sample.plan:
            return None
    except Exception:  # whatever a broken compiler raises
        return Trial(sample.seed, FAILED, difference=traceback.format_exc(MOST_FRAMES))
    outputs = [_run(plan, each) for each in sample.inputs]
    changed = any(
        actual and actual != expected for actual, expected in zip(outputs, sample.expected, strict=True)
    )
    stopped = not all(outputs)
    try:
        proof = proof_of(plan, sample.lowered, seed=sample.seed)
        result, difference = PROVED if proof.proved else REFUSED, proof.difference
    except VdlaError as error:  # of the passes for the target, which a fault may break, too
        result, difference = REFUSED, str(error)
    unsafe = result == REFUSED and importlib.import_module("break_streams").is_unsafe(plan)
    return Trial(sample.seed, result, changed, stopped, unsafe, difference)


def _run(plan: Plan, inputs: Inputs) -> list[bytes]:
    """Return the outputs of a run; nothing if it fails in any way."""
    try:
        return results(plan, inputs)
    except Exception:  # a plan whose parts do not fit
        return []
