"""Tuning within the points of a sweep, as its table [tune] says."""

from pathlib import Path

from vdla.compiler.codegen.tuned.log import read_log
from vdla.compiler.codegen.tuned.record import TuneError, TuningRecord
from vdla.explore.sweep.errors import SweepError
from vdla.explore.sweep.specification import Tune
from vdla.explore.sweep.workloads import located
from vdla.explore.tune.history import LEAST_RECORDS
from vdla.explore.tune.model import Measured
from vdla.explore.tune.proposals import require_library
from vdla.explore.tune.within import Tuning, taught
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.target import Target


def tuning_of(tune: Tune, folder: Path, base: Target) -> Tuning:
    """Return the tuning that a table asks for, with what its log teaches the model.

    Args:
        folder: of the specification, where the relative name of a log starts.
        base: the target that points differ from.

    Raises:
        SweepError: the log does not exist, is damaged, or teaches nothing.
        ToolError: the explorer learns, and xgboost is not installed.
    """
    require_library(tune.explorer, "give another tune.explorer")
    if tune.log is None:
        return Tuning(tune.explorer, tune.seed, tune.trials)
    path = located(tune.log, "tune.log", folder)
    try:
        records = read_log(path).records
    except TuneError as error:
        raise SweepError(f"tune.log: {error}") from error
    return Tuning(tune.explorer, tune.seed, tune.trials, _warm(records, path, base))


def digest(tuning: Tuning) -> str:
    """Return a digest of what the log of a tuning teaches; "" where that is nothing."""
    if not tuning.warm:
        return ""
    arrays = (array for one in tuning.warm for array in (one.features, one.estimates, one.cycles))
    return digest_of(part for array in arrays for part in (str(array.shape), array.tobytes()))


def _warm(records: tuple[TuningRecord, ...], path: Path, base: Target) -> tuple[Measured, ...]:
    found = taught(records, base)
    if not found:
        raise SweepError(
            f"tune.log: {path} teaches nothing: no task has {LEAST_RECORDS} of its {len(records):,} records "
            "on a preset or on the base; make a log with `vdla tune`, or leave the key out"
        )
    return found
