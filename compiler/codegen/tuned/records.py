"""The records that a compilation uses: those of a log, or of the database that ships with the kit.

The database is the files `*.jsonl` beside this module; `scripts/fill_tuned.py` writes them.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from vdla.compiler.codegen.tuned.log import Reading, read_log
from vdla.compiler.codegen.tuned.record import Record, best_of, rank, settled_of
from vdla.compiler.codegen.version import task_version
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.target import Target

NONE = "none"
SHIPPED = Path(__file__).parent
KIT = "the kit's records"

Best = Mapping[tuple[str, str], Record]
Settled = Mapping[tuple[str, str], tuple[Record, ...]]


@dataclass(frozen=True, eq=False)
class Records:
    """The best records of tasks.

    Attributes:
        source: what they are from: a log, or KIT; "" where there are none.
        now: measured by this version of the compiler, by task and timing digest.
        before: measured by other versions, where they are better than those.
        settled: choices for all tasks of a network, by the network's digest and timing digest: of this
            version if there are any, else of another.
        torn: the last line of the log was torn.
        targets: names of the targets of all records, by timing digest.
    """

    source: str = ""
    now: Best = field(default_factory=dict)
    before: Best = field(default_factory=dict)
    settled: Settled = field(default_factory=dict)
    torn: bool = False
    targets: Mapping[str, str] = field(default_factory=dict)

    def others_than(self, target: Target) -> tuple[str, ...]:
        """Return the names of the records' targets where none of them is `target`, with the beginning of
        the timing digest where the name is the same."""
        if target.timing_digest in self.targets:
            return ()
        names = sorted(self.targets.items(), key=lambda item: item[1])
        return tuple(name if name != target.name else f"{name} {timing[:8]}" for timing, name in names)

    def digest(self, target: Target) -> str:
        """Return a digest of those for a target."""
        best = [record for found in (self.now, self.before) for _, record in sorted(found.items())]
        settled = [record for _, found in sorted(self.settled.items()) for record in found]
        return digest_of(record.text for record in (*best, *settled) if record.timing == target.timing_digest)


NO_RECORDS = Records()


def records_of(tuning: str | os.PathLike[str] | None) -> Records:
    """Return the records that a compilation is to use.

    Args:
        tuning: a tuning log; NONE: no records; None: those that ship with the kit.

    Raises:
        TuneError: the log cannot be read, or a line before the last is damaged.
    """
    if tuning is None:
        return shipped()
    if tuning == NONE:
        return NO_RECORDS
    with Reading(Path(tuning), held=False) as log:
        records = useful(log)
        return best_records(str(tuning), records, torn=log.torn)


@cache
def shipped() -> Records:
    """Return the records that ship with the kit."""
    files = sorted(SHIPPED.glob("*.jsonl"))
    return best_records(KIT, [record for file in files for record in read_log(file).records])


def useful(records: Iterable[Record]) -> list[Record]:
    """Return what `best_records` may choose: the best record of each task, timing digest and version, and
    the records of whole networks."""
    best: dict[tuple[str, str, str], Record] = {}
    networks: list[Record] = []
    for record in records:
        key = record.task, record.timing, record.version
        if record.network:
            networks.append(record)
        elif record.cycles is not None:
            best[key] = min(best.get(key, record), record, key=rank)
    return [*best.values(), *networks]


def best_records(source: str, records: Iterable[Record], *, torn: bool = False) -> Records:
    """Return the best of some records."""
    every = list(records)
    now = best_of(record for record in every if record.version == task_version())
    before = best_of(record for record in every if record.version != task_version())
    better = {key: record for key, record in before.items() if key not in now or _better(record, now[key])}
    settled = settled_of(every) | settled_of(record for record in every if record.version == task_version())
    return Records(source, now, better, settled, torn, {one.timing: one.target for one in every})


def _better(record: Record, other: Record) -> bool:
    assert record.cycles is not None, "the best are legal"
    assert other.cycles is not None, "the best are legal"
    return record.cycles < other.cycles
