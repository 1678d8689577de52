"""Runs of a module on several samples, one after the other."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from vdla.runtime.samples import InputError
from vdla.runtime.samples.fit import Along, Fitted
from vdla.runtime.session.session import Outcome, Progress, Session, Values


def run_each(session: Session, fitted: Fitted, progress: Progress | None = None) -> Outcome:
    """Run the network once for each sample.

    Cycles do not depend on data, so the launches of the first run stand for the launches of all.

    Args:
        fitted: samples of the module's inputs.
        progress: called before each step.

    Returns:
        The outputs of all runs joined, the launches of the first run, the seconds of all, and the average
        seconds of the host and of copies in a run.

    Raises:
        ModuleError: an input is not finite; an operator fails on the host.
    """
    first = session.run(fitted.samples[0], progress=progress)
    outcomes = [first]
    for sample in fitted.samples[1:]:
        outcomes.append(replace(session.run(sample, progress=progress), launches=()))
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
