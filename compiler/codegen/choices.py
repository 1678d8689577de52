"""Choices for tasks on a target, and their JSON form."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from vdla.compiler.codegen.tiles import KEEPS, LOOPS, Tiles
from vdla.compiler.tasks.base import Choice, Task
from vdla.hw.spec.errors import VdlaError


class ChoiceError(VdlaError):
    """An invalid record of choices."""


@dataclass(frozen=True)
class Choices:
    """Choices for the tasks of a network.

    Attributes:
        target: timing digest of the target; "" if there are no choices.
        by_task: choice of each task, by the text of the task.
    """

    target: str = ""
    by_task: Mapping[str, Choice] = field(default_factory=dict)

    def of(self, task: Task) -> Choice | None:
        """Return the choice for a task, or None."""
        return self.by_task.get(str(task))

    def __str__(self) -> str:
        return json.dumps(
            {
                "target": self.target,
                "choices": {task: choice_to_json(choice) for task, choice in self.by_task.items()},
            },
            indent=1,
        )


def choices_of(target: str, chosen: Iterable[tuple[Task, Choice]]) -> Choices:
    """Return the record of the choices of tasks for a target."""
    return Choices(target, {str(task): choice for task, choice in chosen})


def parse_choices(text: str) -> Choices:
    """Parse a record from the text that `str(choices)` returns.

    Raises:
        ChoiceError: the text is not a record of choices.
    """
    try:
        values = json.loads(text)
        return Choices(
            str(values["target"]),
            {task: choice_from_json(choice) for task, choice in values["choices"].items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ChoiceError(
            f"the text is not a record of choices: {error!r}; write one with str(choices)"
        ) from error


def choice_to_json(choice: Choice) -> dict[str, object]:
    """Return a choice as plain JSON values."""
    tiles = None if choice.tiles is None else asdict(choice.tiles)
    return {"threads": choice.threads, "tiles": tiles, "parts": choice.parts}


def choice_from_json(values: Mapping[str, Any]) -> Choice:
    """Restore a choice from the values that `choice_to_json` returns.

    Raises:
        KeyError, TypeError, ValueError: the values are not a choice.
    """
    tiles = None if values["tiles"] is None else Tiles(**values["tiles"])
    numbers = [
        values["threads"],
        values["parts"],
        *([] if tiles is None else (tiles.outputs, tiles.rows, tiles.columns, tiles.inputs)),
    ]
    if not all(type(number) is int and number > 0 for number in numbers) or (
        tiles is not None and (tiles.threads_over not in LOOPS or tiles.keeps not in KEEPS)
    ):
        raise ValueError(f"{values} is not a choice")
    return Choice(values["threads"], tiles, values["parts"])
