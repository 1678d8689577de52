"""The best records for a compilation, from a log or from the database that ships with the kit, and a report
on their use.

The database is the set of files `*.jsonl` in this folder; `scripts/fill_tuned.py` writes them.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from vdla.compiler.codegen.tuned.log import read_log
from vdla.compiler.codegen.tuned.record import TuningRecord, best_of, rank_of, settled_of
from vdla.compiler.codegen.version import task_version
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.target import Target

NONE = "none"
SHIPPED = Path(__file__).parent
KIT = "the kit's records"
MOST_NAMES = 4  # of layers, in a report

Best = Mapping[tuple[str, str], TuningRecord]
Settled = Mapping[tuple[str, str], tuple[TuningRecord, ...]]


@dataclass(frozen=True, eq=False)
class TuningRecords:
    """The best records of tasks.

    Attributes:
        source: path of the log, or KIT; "" if there are no records.
        current: records of this version of the compiler, by task and timing digest.
        older: records of other versions that are better than `current`, by task and timing digest.
        settled: choices for all tasks of a network, by network digest and timing digest; of this version if
            available, else of another version.
        torn: the last line of the log was incomplete.
        targets: names of the targets of all records, by timing digest.
    """

    source: str = ""
    current: Best = field(default_factory=dict)
    older: Best = field(default_factory=dict)
    settled: Settled = field(default_factory=dict)
    torn: bool = False
    targets: Mapping[str, str] = field(default_factory=dict)

    def other_targets(self, target: Target) -> tuple[str, ...]:
        """Return the names of the records' targets, or () if `target` is among them. A name equal to the name
        of `target` is followed by the first digits of its timing digest."""
        if target.timing_digest in self.targets:
            return ()
        names = sorted(self.targets.items(), key=lambda item: item[1])
        return tuple(name if name != target.name else f"{name} {timing[:8]}" for timing, name in names)

    def digest(self, target: Target) -> str:
        """Return a digest of the records for a target."""
        best = [record for by_key in (self.current, self.older) for _, record in sorted(by_key.items())]
        settled = [record for _, records in sorted(self.settled.items()) for record in records]
        return digest_of(record.text for record in (*best, *settled) if record.timing == target.timing_digest)


NO_RECORDS = TuningRecords()


def records_of(tuning: str | os.PathLike[str] | None) -> TuningRecords:
    """Return the records for a compilation.

    Args:
        tuning: path of a tuning log; NONE: no records; None: the records that ship with the kit.

    Raises:
        TuneError: the log cannot be read, or a line before the last is damaged.
    """
    if tuning is None:
        return shipped_records()
    if tuning == NONE:
        return NO_RECORDS
    log = read_log(Path(tuning), candidates_for_best)
    return best_records(str(tuning), log.records, torn=log.torn)


@cache
def shipped_records() -> TuningRecords:
    """Return the records that ship with the kit."""
    files = sorted(SHIPPED.glob("*.jsonl"))
    return best_records(KIT, [record for file in files for record in read_log(file).records])


def candidates_for_best(records: Iterable[TuningRecord]) -> list[TuningRecord]:
    """Return the records that `best_records` may select: the best record of each task, timing digest and
    version, and all settled choices."""
    best: dict[tuple[str, str, str], TuningRecord] = {}
    networks: list[TuningRecord] = []
    for record in records:
        key = record.task, record.timing, record.version
        if record.network:
            networks.append(record)
        elif record.cycles is not None:
            best[key] = min(best.get(key, record), record, key=rank_of)
    return [*best.values(), *networks]


def best_records(source: str, records: Iterable[TuningRecord], *, torn: bool = False) -> TuningRecords:
    """Return the best of `records`, by task and by network."""
    every = list(records)
    current = best_of(record for record in every if record.version == task_version())
    outdated = best_of(record for record in every if record.version != task_version())
    older = {
        key: record
        for key, record in outdated.items()
        if key not in current or rank_of(record)[0] < rank_of(current[key])[0]
    }
    settled = settled_of(every) | settled_of(record for record in every if record.version == task_version())
    targets = {record.timing: record.target for record in every}
    return TuningRecords(source, current, older, settled, torn, targets)


@dataclass(frozen=True, slots=True)
class Tuning:
    """The use of tuned records for the tasks of a network.

    Attributes:
        tasks: number of tasks.
        with_record: number of tasks with the choice of a record.
        remeasured: number of these whose record was measured again, because another version of the compiler
            had measured it.
        worse: a layer for each task whose record was measured again and no longer beats the compiler's
            choice.
        without_record: a layer for each task without a record.
    """

    tasks: int
    with_record: int
    remeasured: int
    worse: tuple[str, ...]
    without_record: tuple[str, ...]

    def report(self, source: str, record_targets: Sequence[str] = ()) -> str:
        """Return the report as a line.

        Args:
            source: source of the records.
            record_targets: names of the targets of the records, if none is for this target.
        """
        if record_targets:
            return (
                f"tuned: no task, because {source} holds records of {', '.join(record_targets)} and no "
                "record of this target; a record holds for one configuration and memory: tune for this "
                "target, or compile for that target"
            )
        parts = [f"tuned: {self.with_record} of {self.tasks} tasks by {source}"]
        if self.remeasured:
            parts.append(f"{self.remeasured} of them measured again for this version of the kit")
        if self.worse:
            parts.append(f"no longer better: {_cut(self.worse)}")
        if self.without_record and source != KIT:  # the kit has only records that beat the compiler
            parts.append(f"none for: {_cut(self.without_record)}")
        return ", ".join(parts)

    @property
    def applied(self) -> bool:
        """Whether there were records for any task."""
        return bool(self.with_record or self.worse)


def _cut(names: Sequence[str]) -> str:
    """Return the first names as text, and the number of further names."""
    more = len(names) - MOST_NAMES
    shown = ", ".join(names if more <= 1 else names[:MOST_NAMES])
    return f"{shown} and {more} more" if more > 1 else shown
