"""Tuning records: the measurement of a choice in a trial."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from vdla.hw.spec.errors import VdlaError

OK = "ok"
LARGEST = (1 << 63) - 1
Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
Cycles = Annotated[int, msgspec.Meta(ge=1, le=LARGEST)]


class TuneError(VdlaError):
    """A tuning log that cannot be used, or tuning that cannot run."""


@dataclass(frozen=True)
class TuningRecord:
    """A trial of a task, or a settled choice: the choice for a task with which a whole network is fastest.

    Attributes:
        task: text of the task.
        timing: timing digest of the target.
        target: name of the target.
        choice: JSON values of `vdla.compiler.tasks.base.choice_to_json`.
        cycles: cycles of the isolated task, None if the choice is illegal; for a settled choice, cycles of
            the network.
        version: version of the compiler that measured, see `vdla.compiler.codegen.version`.
        explorer, seed: explorer that proposed the choice, and its seed.
        trial: number of the trial in the tuning.
        status: OK, or the reason why the choice is illegal.
        network: digest of the network, for a settled choice; "" for a trial. Each task of the network has a
            settled choice.
        layers: names of the layers with this task. Trials of explorers omit them.
        model: name of the network's file, for a settled choice.
        before: cycles of the network with default choices, for a settled choice.
    """

    task: str
    timing: str
    target: str
    choice: dict[str, Any]
    cycles: Cycles | None
    version: str
    explorer: str
    seed: Count
    trial: Count
    status: str = OK
    network: str = ""
    layers: tuple[str, ...] = ()
    model: str = ""
    before: Cycles | None = None

    @property
    def text(self) -> bytes:
        """The record as JSON; equal records have equal texts."""
        return msgspec.json.encode(self, order="sorted")

    @property
    def choice_text(self) -> str:
        """The choice as JSON; equal choices have equal texts."""
        return msgspec.json.encode(self.choice, order="sorted").decode()

    @property
    def order(self) -> tuple[str, str, str, str, str, int, int, bytes]:
        """Sort key in a merged log: target, version and task, then tuning and trial."""
        place = (self.target, self.timing, self.version, self.task, self.explorer, self.seed, self.trial)
        return (*place, self.text)


def record_from(text: bytes) -> TuningRecord:
    """Parse a record from JSON.

    Raises:
        ValueError: the text is not a record.
    """
    try:
        record = msgspec.json.decode(text, type=TuningRecord)
    except RecursionError:
        raise ValueError("the choice of a record is nested too deeply") from None
    if (record.status == OK) is (record.cycles is None):
        raise ValueError("a record has either cycles or a reason")
    return record


def merged(*logs: Iterable[TuningRecord]) -> list[TuningRecord]:
    """Return the distinct records of several logs, in the order of `TuningRecord.order`."""
    distinct = {record.text: record for log in logs for record in log}
    return sorted(distinct.values(), key=lambda record: record.order)


def best_of(records: Iterable[TuningRecord]) -> dict[tuple[str, str], TuningRecord]:
    """Return the legal trial with the fewest cycles, per task and timing digest. Ties are broken by
    `TuningRecord.order`."""
    best: dict[tuple[str, str], TuningRecord] = {}
    for record in records:
        key = record.task, record.timing
        if record.network or record.cycles is None:
            continue
        if key not in best or rank_of(record) < rank_of(best[key]):
            best[key] = record
    return best


def settled_of(records: Iterable[TuningRecord]) -> dict[tuple[str, str], tuple[TuningRecord, ...]]:
    """Return the settled choices with the fewest cycles, per network and timing digest. Ties are broken by
    `TuningRecord.order`."""
    settlements: dict[tuple[str, str], dict[tuple[object, ...], list[TuningRecord]]] = {}
    for record in sorted((record for record in records if record.network), key=rank_of):
        together = record.cycles, record.version, record.explorer, record.seed, record.trial
        settlements.setdefault((record.network, record.timing), {}).setdefault(together, []).append(record)
    return {key: tuple(next(iter(by_tuning.values()))) for key, by_tuning in settlements.items()}


def rank_of(record: TuningRecord) -> tuple[int, tuple[object, ...]]:
    """Return the sort key of legal records: fewest cycles first, then `TuningRecord.order`."""
    assert record.cycles is not None, "only legal records are ranked"
    return record.cycles, record.order
