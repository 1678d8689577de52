"""The cache of choices, shared between processes."""

import json

from vdla.compiler.codegen.choose import Chooser, by_simulator
from vdla.compiler.codegen.space import ChoiceSpace
from vdla.compiler.codegen.version import task_version
from vdla.compiler.tasks.base import Choice, choice_from_json, choice_to_json
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.shelf import Shelf

CHOICES = Shelf("choices", 3 << 20)  # about 20,000


def cached(choose: Chooser = by_simulator) -> Chooser:
    """Return a chooser that reads choices from the cache, and adds missing choices by `choose`."""

    def chosen(space: ChoiceSpace) -> Choice:
        if len(space.usual) == 1 and space.more is None:
            return space.usual.choice(0)
        key = key_of(space)
        choice = read(key)
        if choice is None or choice not in space:
            choice = choose(space)
            write(key, choice)
        return choice

    return chosen


def key_of(space: ChoiceSpace) -> str:
    """Return the key of a space: a digest of the task, of the target's timing, and of the sources that
    determine the choice."""
    return digest_of([str(space.task), space.target.timing_digest, str(space.lasting), task_version()])


def read(key: str) -> Choice | None:
    """Return the choice with a key; None if there is no entry, or it was altered."""
    data = CHOICES.read(key)
    return None if data is None else choice_from_json(json.loads(data))


def write(key: str, choice: Choice) -> None:
    """Add a choice; the choices that were used least recently make way."""
    CHOICES.write(key, json.dumps(choice_to_json(choice)).encode())
