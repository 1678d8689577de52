"""Choices for the tasks of a network on a target, and the JSON form of a choice."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from vdla.compiler.codegen.tiles import KEEPS, LOOPS, Tiles
from vdla.compiler.tasks.base import Choice, Task
from vdla.hw.spec.errors import VdlaError


class ChoiceError(VdlaError):
    """Choices that cannot be used for a network on a target."""


@dataclass(frozen=True)
class Choices:
    """Choices for the tasks of a network.

    Attributes:
        target: timing digest of the target; "" if there are no choices.
        by_task: choice of each task.
    """

    target: str = ""
    by_task: Mapping[Task, Choice] = field(default_factory=dict)


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
