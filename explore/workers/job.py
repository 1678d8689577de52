"""What workers do, and what has them do it."""

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

from vdla.hw.spec.errors import VdlaError

Thing = TypeVar("Thing")
Result = TypeVar("Result")
ThingIn = TypeVar("ThingIn", contravariant=True)
ResultOut = TypeVar("ResultOut", covariant=True)

READY = "ready"
"""What a worker sends when it can measure."""


class WorkerError(VdlaError):
    """Workers that do not start, or that cannot be reached."""


class Job(Protocol[ThingIn, ResultOut]):
    """What is done with each thing. It can be pickled, and is sent to each worker once."""

    def measure(self, thing: ThingIn, /) -> ResultOut:
        """Measure one thing; whatever is wrong with it is its result."""

    def failed(self, thing: ThingIn, reason: str, /) -> ResultOut:
        """Return the result of a thing whose workers died."""


class Backend(Protocol[ThingIn, ResultOut]):
    """What measures things, several at once."""

    def measure(self, things: Iterable[ThingIn], /) -> Iterator[ResultOut]:
        """Yield the result of every thing, in the order in which they end."""
