"""The chooser that uses records.

A record is used on the target that it was measured on, and nowhere else. If this version of the compiler
measured it, it is used as it stands; a record of another version is measured again first.
"""

from enum import StrEnum

from vdla.compiler.codegen import store
from vdla.compiler.codegen.choose import Chooser, simulated_cycles
from vdla.compiler.codegen.record import choice_from_json
from vdla.compiler.codegen.space import Space
from vdla.compiler.codegen.tuned.record import Record
from vdla.compiler.codegen.tuned.records import Records
from vdla.compiler.tasks.base import Choice
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.errors import VdlaError


class Use(StrEnum):
    """How records served a task."""

    FOUND = "found"
    AGAIN = "measured again, and used"
    WORSE = "measured again, and not used"
    NONE = "no record"


class ByRecords:
    """A chooser that takes the best record's choice, and lets another chooser choose where there is none.

    Args:
        records: that may be used.
        choose: makes all other choices.

    Attributes:
        uses: how records served each task, by its text.
    """

    def __init__(self, records: Records, choose: Chooser) -> None:
        self._records, self._choose = records, choose
        self.uses: dict[str, Use] = {}

    def __call__(self, space: Space) -> Choice:
        """Return the choice for a space.

        Raises:
            ToolError: the cache of choices cannot be used.
        """
        key = str(space.task), space.target.timing_digest
        now, before = self._records.now.get(key), self._records.before.get(key)
        own = None if now is None else legal(now, space)
        older = None if before is None else legal(before, space)
        if older is not None:
            return self._measured_again(space, own, older)
        self.uses[key[0]] = Use.NONE if own is None else Use.FOUND
        return self._choose(space) if own is None else own

    def _measured_again(self, space: Space, own: Choice | None, older: Choice) -> Choice:
        """Return the better of a choice that another version measured, and the one that stands without it."""
        other = self._choose(space) if own is None else own
        key = digest_of([store.key_of(space), repr(other), repr(older)])
        found = store.read(key)
        if found not in (other, older):
            found = _faster(space, other, older)
            store.write(key, str(space.task), found)
        used = Use.WORSE if own is None else Use.FOUND
        self.uses[str(space.task)] = Use.AGAIN if found == older else used
        return found


def by_records(records: Records, choose: Chooser) -> ByRecords:
    """Return a chooser that applies records, and tells afterwards which it applied."""
    return ByRecords(records, choose)


def legal(record: Record, space: Space) -> Choice | None:
    """Return the choice of a record; None where the space has none such: another version's may have had."""
    try:
        choice = choice_from_json(record.choice)
    except (KeyError, TypeError, ValueError):
        return None
    return choice if choice in space else None


def _faster(space: Space, choice: Choice, other: Choice) -> Choice:
    """Return the one of two choices with fewer simulated cycles; the first where the second fails."""
    try:
        cycles = simulated_cycles(space.task, other, space.target)
    except VdlaError:  # a choice of another version that this one cannot lower
        return choice
    return other if cycles < simulated_cycles(space.task, choice, space.target) else choice
