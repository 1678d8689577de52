"""Whether tests notice a mutant: the near ones, then those of the next ring."""

import time
from collections.abc import Container, Iterator
from dataclasses import dataclass
from itertools import accumulate, groupby

from mutation.baseline import Baseline, Measured
from mutation.rings import Rings
from mutation.sample import Mutant
from mutation.trees import TIMEOUT, Result, Trees

NEAR_SECONDS, NEXT_SECONDS = 45.0, 120.0  # processor time of tests for one mutant, on the unchanged tree
GRACE_SECONDS = 60.0  # in which changed hardware or native code is compiled
NEAR, NEXT = "near", "next"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a mutant.

    Attributes:
        ring: the one that noticed it; "" where none did.
        test: which test or script did; what else it was where none ran to its end.
        timeout: whether it was noticed because it took too long.
        seconds: by the clock.
        tests: how many tests there were near.
    """

    ring: str
    test: str
    timeout: bool
    seconds: float
    tests: int


@dataclass(frozen=True, slots=True)
class Judge:
    """Runs the rings on mutants."""

    trees: Trees
    rings: Rings
    baseline: Baseline

    def judge(self, mutant: Mutant) -> Verdict:
        """Plant a mutant in a copy of the tree, and run ring after ring until something notices it."""
        near: dict[str, float] = {}
        began = time.monotonic()

        def verdict(ring: str, test: str = "", timeout: bool = False) -> Verdict:
            return Verdict(ring, test, timeout, time.monotonic() - began, len(near))

        for tests in self._near_tests(mutant.module):
            near |= tests
            noticed = self._noticed(mutant, tests)
            if noticed:
                return verdict(NEAR, *noticed)
        noticed = self._noticed(mutant, self._next_tests(mutant.module, near))
        if noticed:
            return verdict(NEXT, *noticed)
        for command in self.rings.campaigns(mutant.module):
            noticed = self._noticed_by_script(mutant, command)
            if noticed:
                return verdict(NEXT, *noticed)
        return verdict("")

    def _noticed(self, mutant: Mutant, tests: dict[str, float]) -> tuple[str, bool] | None:
        """Return the test that notices a mutant, and whether it did so by taking too long."""
        if not tests:
            return None
        with self._planted(mutant) as place:
            result = self.trees.pytest(place, list(tests), _limit(sum(tests.values())))
        if result.status == 0:
            return None
        return _culprit(result, list(tests)), result.status == TIMEOUT

    def _noticed_by_script(self, mutant: Mutant, command: tuple[str, ...]) -> tuple[str, bool] | None:
        seconds = self.baseline.measured(*command).total
        with self._planted(mutant) as place:
            result = self.trees.python(place, command, _limit(seconds))
        return None if result.status == 0 else (command[0], result.status == TIMEOUT)

    def _planted(self, mutant: Mutant):
        source = (self.trees.base / mutant.module).read_bytes()
        return self.trees.copy({mutant.module: mutant.change.applied(source)})

    def _near_tests(self, module: str) -> Iterator[dict[str, float]]:
        """Yield the near tests with their seconds, tier by tier: as many of each file as time allows."""
        left = NEAR_SECONDS
        for _, files in groupby(self.rings.near(module), lambda file: self.rings.tier(module, file)):
            tests: list[tuple[float, str, float, str]] = []
            for file in files:
                measured = self.baseline.measured(file)
                for seconds, test in self._ranked(module, measured):
                    if seconds <= left:
                        left -= seconds
                        tests.append((measured.total, file, seconds, test))
                if left < NEAR_SECONDS / 10:
                    break
            yield {test: seconds for _, _, seconds, test in sorted(tests)}
            if left < NEAR_SECONDS / 10:
                return

    def _ranked(self, module: str, measured: Measured) -> Iterator[tuple[float, str]]:
        """Yield the tests of a file that are near `module`, with their seconds, the nearest first."""
        ranks = {test: self.rings.rank(module, test) for test in measured.seconds}
        near = ((rank, measured.seconds[test], test) for test, rank in ranks.items() if rank is not None)
        yield from ((seconds, test) for _, seconds, test in sorted(near))

    def _next_tests(self, module: str, near: Container[str]) -> dict[str, float]:
        """Return the tests of the next ring with their seconds: the quickest that are not near."""
        timed = sorted(
            (seconds, file, test)
            for file in self.rings.next(module)
            for test, seconds in self.baseline.measured(file).seconds.items()
            if test not in near
        )
        enough = [total <= NEXT_SECONDS for total in accumulate(seconds for seconds, _, _ in timed)]
        kept = [entry for entry, fits in zip(timed, enough, strict=True) if fits]
        return {test: seconds for seconds, _, test in sorted(kept, key=lambda entry: (entry[1], entry[0]))}


def _limit(seconds: float) -> float:
    """Return how long a run may take that takes `seconds` on the unchanged tree."""
    return GRACE_SECONDS + 5 * seconds


def _culprit(result: Result, tests: list[str]) -> str:
    """Return the test that failed, or that ran when the process ended."""
    if result.failed():
        return result.failed()[0]
    begun = list(result.tests)
    return next(
        (test for test in tests if test not in begun), begun[-1] if begun else f"status {result.status}"
    )
