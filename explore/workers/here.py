"""A worker in this process, for jobs inside a job."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Generic

from vdla.explore.workers.job import Backend, Job, Result, Thing


@dataclass(frozen=True)
class Here(Generic[Thing, Result]):
    """Measures one thing after another, in their order.

    Attributes:
        job: what is done with each thing.
    """

    job: Job[Thing, Result]

    def measure(self, things: Iterable[Thing]) -> Iterator[Result]:
        """Yield the result of every thing."""
        return map(self.job.measure, things)


def here(job: Job[Thing, Result]) -> AbstractContextManager[Backend[Thing, Result]]:
    """Return the worker of a job."""
    return nullcontext(Here(job))
