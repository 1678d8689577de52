"""Records: what one trial of a choice measured."""

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
class Record:
    """One trial; or the choice for a task with which a whole network is fastest.

    Attributes:
        task: text of the task.
        timing: timing digest of the target.
        target: its name.
        choice: as `vdla.compiler.codegen.record.choice_to_json` gives it.
        cycles: of the task alone; None where the choice is illegal. Of the network, where there is one.
        version: of the compiler that measured, see `vdla.compiler.codegen.version`.
        explorer, seed: what proposed the choice.
        trial: its number among the trials of one tuning.
        status: OK, or why the choice is illegal.
        network: digest of the network for which the choice was settled, with one for each of its tasks; ""
            for a trial.
        layers: names of the layers in which the task occurs. Trials of explorers do not repeat them.
        model: name of the network's file, of a settled choice.
        before: cycles of the network by the compiler's own choices, of a settled choice.
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
        """The record as JSON: equal records have equal texts."""
        return msgspec.json.encode(self, order="sorted")

    @property
    def choice_text(self) -> str:
        """The choice as JSON: equal choices have equal texts."""
        return msgspec.json.encode(self.choice, order="sorted").decode()

    @property
    def order(self) -> tuple[str, str, str, str, str, int, int, bytes]:
        """The place in a merged log: by target, version and task, then by tuning and trial."""
        place = (self.target, self.timing, self.version, self.task, self.explorer, self.seed, self.trial)
        return (*place, self.text)


def record_from(text: bytes) -> Record:
    """Return the record of a JSON text.

    Raises:
        ValueError: it is none.
    """
    try:
        found = msgspec.json.decode(text, type=Record)
    except RecursionError:
        raise ValueError("the choice of a record is nested too deeply") from None
    if (found.status == OK) is (found.cycles is None):
        raise ValueError("a record has either cycles or a reason")
    return found


def merged(*logs: Iterable[Record]) -> list[Record]:
    """Return the records of several logs: equal ones once, in the order of `Record.order`."""
    distinct = {record.text: record for log in logs for record in log}
    return sorted(distinct.values(), key=lambda record: record.order)


def best_of(records: Iterable[Record]) -> dict[tuple[str, str], Record]:
    """Return the legal trial with the fewest cycles for each task and timing digest; of equal ones the first
    in order."""
    best: dict[tuple[str, str], Record] = {}
    for record in records:
        key = record.task, record.timing
        if record.network or record.cycles is None:
            continue
        if key not in best or rank(record) < rank(best[key]):
            best[key] = record
    return best


def settled_of(records: Iterable[Record]) -> dict[tuple[str, str], tuple[Record, ...]]:
    """Return the records of the settlement with the fewest cycles for each network and timing digest; of
    equal ones the first in order."""
    settlements: dict[tuple[str, str], dict[tuple[object, ...], list[Record]]] = {}
    for record in sorted((record for record in records if record.network), key=rank):
        together = record.cycles, record.version, record.explorer, record.seed, record.trial
        settlements.setdefault((record.network, record.timing), {}).setdefault(together, []).append(record)
    return {key: tuple(next(iter(found.values()))) for key, found in settlements.items()}


def rank(record: Record) -> tuple[int, tuple[object, ...]]:
    """Return what orders legal records: fewest cycles first, then `Record.order`."""
    assert record.cycles is not None, "only legal records are ranked"
    return record.cycles, record.order
