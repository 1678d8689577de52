"""Rules: what the accelerator takes. A rule is stated once; the reasons why something stays on the host and
the tables of operators are made of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from vdla.runtime.module.reasons import reason_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unfit:
    """A target cannot run an operator; `reason` says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Rule(Generic[T]):
    """One property that an operator must have to run on the accelerator.

    Attributes:
        takes: what is supported, as in "the accelerator takes 2 dimensions".
        found: returns what an operator has instead, after the word "with"; "" where the rule holds. It may
            rely on the rules before it.
        cure: what to do so that it runs there, without a semicolon; "" where nothing is to be done.
    """

    takes: str
    found: Callable[[T], str]
    cure: str = ""


def unfit(
    subject: str, rules: Iterable[Rule[T]], case: T, takes: str = "the accelerator takes"
) -> Unfit | None:
    """Return the first of `rules` that `case` breaks, as the reason why `subject` is unfit, with what to do
    about it, or else what is taken; None where all hold."""
    for rule in rules:
        found = rule.found(case)
        if found:
            return Unfit(reason_of(f"{subject} with {found}", rule.cure or f"{takes} {rule.takes}"))
    return None


def conditions(rules: Iterable[Rule[Any]]) -> str:
    """Return what rules ask for, for tables."""
    return "; ".join(rule.takes for rule in rules)


def enabling(*extensions: str) -> str:
    """Return how to switch on extensions of the instruction set, for cures."""
    names = " and ".join(f"`{extension}`" for extension in extensions)
    setting = ",".join(f"+{extension}" for extension in extensions)
    return f"enable extension{'s' * (len(extensions) > 1)} {names} (--set extensions={setting})"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: "1 dimension", "2 dimensions"."""
    return f"{count} {noun}{'s' * (count != 1)}"
