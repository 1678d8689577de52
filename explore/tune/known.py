"""What a log knows of a target: trials that this version of the compiler has measured on it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf

from vdla.compiler.codegen.space import ChoiceSpace
from vdla.compiler.codegen.tuned.chooser import legal_choice
from vdla.compiler.codegen.tuned.record import OK, TuningRecord
from vdla.compiler.codegen.version import task_version
from vdla.compiler.tasks.base import Choice, Task, choice_to_json
from vdla.hw.spec.target import Target

DEFAULT = "default"  # in the place of an explorer: the compiler's default choice


class Known:
    """The records of a target and this version, by task.

    Args:
        explorer, seed: of the tuning that goes on; its records are told from others.
    """

    def __init__(self, records: Iterable[TuningRecord], target: Target, explorer: str, seed: int) -> None:
        self.target, self.explorer, self.seed = target, explorer, seed
        self._of: dict[str, dict[str, list[TuningRecord]]] = {}
        for record in records:
            if (
                record.timing == target.timing_digest
                and record.version == task_version()
                and not record.network
            ):
                of_task = self._of.setdefault(record.task, {})
                of_task.setdefault(record.choice_text, []).append(record)

    def default_of(self, task: Task) -> TuningRecord | None:
        """Return the record of the compiler's default choice for a task; None where there is none."""
        return next((record for record in self._every(task) if record.explorer == DEFAULT), None)

    def of(self, space: ChoiceSpace) -> tuple[dict[int, TuningRecord], dict[int, TuningRecord]]:
        """Return the records of a space's choices, by their places: the records of this tuning, and the
        records of choices that only other tunings have measured."""
        this_tuning: dict[int, TuningRecord] = {}
        others: dict[int, TuningRecord] = {}
        for records in self._of.get(str(space.task), {}).values():
            choice = legal_choice(records[0], space)
            place = None if choice is None else space.place(choice)
            if place is not None:
                mine = [
                    record
                    for record in records
                    if (record.explorer, record.seed) == (self.explorer, self.seed)
                ]
                (this_tuning if mine else others)[place] = (mine or records)[0]
        return this_tuning, others

    def record(self, task: Task, choice: Choice, cycles: int | None, status: str, trial: int) -> TuningRecord:
        """Return the record of a trial of this tuning."""
        return self._record(task, choice, cycles, self.explorer, self.seed, trial, status)

    def default_record(self, task: Task, choice: Choice, cycles: int, layers: Sequence[str]) -> TuningRecord:
        """Return the record of the compiler's default choice for a task, which occurs in these layers."""
        return replace(self._record(task, choice, cycles, DEFAULT, 0, 0, OK), layers=tuple(layers))

    def _record(
        self,
        task: Task,
        choice: Choice,
        cycles: int | None,
        explorer: str,
        seed: int,
        trial: int,
        status: str,
    ) -> TuningRecord:
        timing, name = self.target.timing_digest, self.target.name
        version = task_version()
        return TuningRecord(
            str(task), timing, name, choice_to_json(choice), cycles, version, explorer, seed, trial, status
        )

    def _every(self, task: Task) -> list[TuningRecord]:
        return [record for records in self._of.get(str(task), {}).values() for record in records]


def cost(record: TuningRecord) -> float:
    """Return the cycles of a record as explorers are told them: inf where its choice is illegal."""
    return inf if record.cycles is None else float(record.cycles)
