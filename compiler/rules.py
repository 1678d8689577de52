"""Rules that decide what the accelerator runs. A rule is stated once; the reasons why an operator runs on the
host and the tables of operators are generated from the rules."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from vdla.runtime.module.reasons import reason_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Unfit:
    """A target cannot run an operator.

    Attributes:
        what: the operator and its unsupported property.
        taken: the supported property; "" if there is none.
        cure: the change that makes the operator run on the accelerator; "" if there is no such change.
    """

    what: str
    taken: str = ""
    cure: str = ""

    @property
    def reason(self) -> str:
        """The reason as a text: what the operator has, and the cure or else the supported property."""
        instead = self.cure or self.taken
        return reason_of(self.what, instead) if instead else self.what


@dataclass(frozen=True, slots=True)
class Rule(Generic[T]):
    """One property that an operator must have to run on the accelerator.

    Attributes:
        takes: the supported property, as in "the accelerator takes 2 dimensions".
        violation: returns the unsupported property of an operator, to follow the word "with"; "" if the rule
            holds. It may rely on all preceding rules.
        cure: the change that makes the operator run on the accelerator, without a semicolon; "" if there is
            no such change.
    """

    takes: str
    violation: Callable[[T], str]
    cure: str = ""


def unfit(
    subject: str, rules: Iterable[Rule[T]], case: T, takes: str = "the accelerator takes"
) -> Unfit | None:
    """Return the reason why `subject` is unfit: the first of `rules` that `case` violates. Return None if all
    rules hold."""
    for rule in rules:
        violation = rule.violation(case)
        if violation:
            return Unfit(f"{subject} with {violation}", f"{takes} {rule.takes}", rule.cure)
    return None


def conditions(rules: Iterable[Rule[Any]]) -> str:
    """Return the supported properties of `rules` as one text, for tables."""
    return "; ".join(rule.takes for rule in rules)


def enabling(*extensions: str) -> str:
    """Return the cure that enables extensions of the instruction set."""
    names = " and ".join(f"`{extension}`" for extension in extensions)
    setting = ",".join(f"+{extension}" for extension in extensions)
    return f"enable extension{'s' * (len(extensions) > 1)} {names} (--set extensions={setting})"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: "1 dimension", "2 dimensions"."""
    return f"{count} {noun}{'s' * (count != 1)}"
