"""The chooser that applies tuning records.

A record applies only to the target that it was measured on. A record of this version of the compiler is
applied directly; a record of another version is measured again first.
"""

from enum import StrEnum

from vdla.compiler.codegen import choice_cache
from vdla.compiler.codegen.choose import Chooser, simulated_cycles
from vdla.compiler.codegen.space import ChoiceSpace
from vdla.compiler.codegen.tuned.best_records import TuningRecords
from vdla.compiler.codegen.tuned.record import TuningRecord
from vdla.compiler.tasks.base import Choice, choice_from_json
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.errors import VdlaError


class RecordUse(StrEnum):
    """Outcome of the lookup of a task's record."""

    APPLIED = "found"
    REMEASURED = "measured again, and used"
    WORSE = "measured again, and not used"
    NONE = "no record"


class RecordChooser:
    """A chooser that returns the choice of the best record, and falls back to another chooser.

    Args:
        records: available records.
        choose: chooser for tasks without a record.

    Attributes:
        uses: outcome of each task, by the text of the task.
    """

    def __init__(self, records: TuningRecords, choose: Chooser) -> None:
        self._records, self._choose = records, choose
        self.uses: dict[str, RecordUse] = {}

    def __call__(self, space: ChoiceSpace) -> Choice:
        """Return the choice for a space."""
        key = str(space.task), space.target.timing_digest
        current_record, older_record = self._records.current.get(key), self._records.older.get(key)
        current = None if current_record is None else legal_choice(current_record, space)
        older = None if older_record is None else legal_choice(older_record, space)
        if older is not None:
            return self._remeasured(space, current, older)
        self.uses[key[0]] = RecordUse.NONE if current is None else RecordUse.APPLIED
        return self._choose(space) if current is None else current

    def _remeasured(self, space: ChoiceSpace, current: Choice | None, older: Choice) -> Choice:
        """Return the faster of the choice of an older version and the current or default choice."""
        fallback = self._choose(space) if current is None else current
        key = digest_of([choice_cache.key_of(space), repr(fallback), repr(older)])
        best = choice_cache.read(key)
        if best not in (fallback, older):
            best = _faster(space, fallback, older)
            choice_cache.write(key, best)
        outcome = RecordUse.WORSE if current is None else RecordUse.APPLIED
        self.uses[str(space.task)] = RecordUse.REMEASURED if best == older else outcome
        return best


def legal_choice(record: TuningRecord, space: ChoiceSpace) -> Choice | None:
    """Return the choice of a record; None if the space does not contain it, which is possible for records of
    other versions."""
    try:
        choice = choice_from_json(record.choice)
    except (KeyError, TypeError, ValueError):
        return None
    return choice if choice in space else None


def _faster(space: ChoiceSpace, choice: Choice, older: Choice) -> Choice:
    """Return the choice with fewer simulated cycles; `choice` if `older` cannot be lowered."""
    try:
        cycles = simulated_cycles(space.task, older, space.target)
    except VdlaError:  # a choice of another version that this version cannot lower
        return choice
    return older if cycles < simulated_cycles(space.task, choice, space.target) else choice
