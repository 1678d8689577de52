"""Runs of a module on several samples, one after the other."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from vdla.runtime.samples import InputError
from vdla.runtime.samples.fit import Along, Fitted
from vdla.runtime.session.session import Outcome, Progress, Session, Values
from vdla.runtime.session.states import first_states, next_states


def run_each(
    session: Session, fitted: Fitted, progress: Progress | None = None, states: Values | None = None
) -> Outcome:
    """Run the network once for each sample.

    Cycles do not depend on data, so the launches of the first run stand for the launches of all.

    Args:
        fitted: samples of what a run takes from outside.
        progress: called before each step.
        states: before the first run, which every run hands to the next; None: zeros.

    Returns:
        The outputs of all runs joined, the launches of the first run, the seconds of all, and the average
        seconds of the host and of copies in a run. The states are those after the last run.

    Raises:
        ModuleError: an input is not finite; an operator fails on the host.
    """
    plan, outcomes = session.plan, list[Outcome]()
    states = first_states(plan) if states is None else states
    for sample in fitted.samples:
        outcome = session.run(sample | states, progress=progress)
        states = next_states(plan, outcome.outputs)
        results = {name: outcome.outputs[name] for name in plan.results}
        outcomes.append(
            replace(
                outcome,
                outputs=results,
                states=states,
                launches=() if outcomes else outcome.launches,
            )
        )
    first = outcomes[0]
    if len(outcomes) == 1 and fitted.along is Along.ALONE:
        return first
    host = np.mean([outcome.host_seconds for outcome in outcomes], axis=0)
    return replace(
        first,
        outputs=joined([outcome.outputs for outcome in outcomes], fitted.along),
        seconds=sum(outcome.seconds for outcome in outcomes),
        host_seconds=tuple(map(float, host)),
        copy_seconds=sum(outcome.copy_seconds for outcome in outcomes) / len(outcomes),
        runs=len(outcomes),
        states=states,
    )


def joined(runs: Sequence[Mapping[str, np.ndarray]], along: Along) -> Values:
    """Return the outputs of several runs, each in one array.

    Outputs whose first extent is 1 are joined along it, if that is where the samples stood; others are
    stacked along a new first axis.

    Raises:
        InputError: an output has another shape in each run.
    """
    return {name: _joined(name, [run[name] for run in runs], along) for name in runs[0]}


def _joined(name: str, arrays: Sequence[np.ndarray], along: Along) -> np.ndarray:
    if len({array.shape for array in arrays}) > 1:
        raise InputError(
            f"output {name} has another shape in each run, so runs cannot be joined; run one sample at a time"
        )
    if along is Along.BATCH and all(array.ndim and len(array) == 1 for array in arrays):
        return np.concatenate(arrays)
    return np.stack(arrays)
