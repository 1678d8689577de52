"""Whether tests notice a mutant: first the near tests, then the tests of the next ring."""

import time
from collections.abc import Container
from dataclasses import dataclass, field
from itertools import accumulate

import click

from mutation.baseline import Baseline
from mutation.rings import Rings
from mutation.sample import Mutant
from mutation.trees import TIMEOUT, Result, Trees

NEAR_SECONDS, NEXT_SECONDS = 60.0, 120.0  # processor time of tests for one mutant
COMPILED, COMPILING_SECONDS = (
    ("sim/", "hw/spec/"),
    40.0,
)  # sources of native code, and more time to compile it
TEST_SECONDS = 90.0  # of one near test; a run that takes more is taken to have no end
GRACE_SECONDS = 60.0  # in which changed hardware or native code is compiled
PASSED = (0, 5)  # exit statuses of pytest: tests have passed, or there are none
NEAR, NEXT = "near", "next"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a mutant.

    Attributes:
        ring: that noticed it; "" where none did.
        test: which test or script did; what else it was where none ran to its end.
        timeout: whether it was noticed because it took too long.
        seconds: by the clock.
        tests: how many near tests ran.
        last: the last ring that was asked.
    """

    ring: str
    test: str
    timeout: bool
    seconds: float
    tests: int
    last: str = NEXT


@dataclass(frozen=True, slots=True)
class Judge:
    """Runs the rings on mutants.

    Attributes:
        last: the last ring to run.
        broken: tests that do not pass on the unchanged tree; they judge nothing.
    """

    trees: Trees
    rings: Rings
    baseline: Baseline
    last: str
    broken: set[str] = field(default_factory=set, init=False)

    def judge(self, mutant: Mutant) -> Verdict:
        """Plant a mutant in a copy of the tree, and run ring after ring until something notices it."""
        near: set[str] = set()
        began = time.monotonic()

        def verdict(ring: str, test: str = "", timeout: bool = False) -> Verdict:
            return Verdict(ring, test, timeout, time.monotonic() - began, len(near), ring or self.last)

        noticed = self._noticed_near(mutant, near)
        if noticed:
            return verdict(NEAR, *noticed)
        if self.last == NEAR:
            return verdict("")
        noticed = self._noticed(mutant, self._next_tests(mutant.module, near))
        if noticed:
            return verdict(NEXT, *noticed)
        for command in self.rings.campaigns(mutant.module):
            noticed = self._noticed_by_script(mutant, command)
            if noticed:
                return verdict(NEXT, *noticed)
        return verdict("")

    def _noticed_near(self, mutant: Mutant, ran: set[str]) -> tuple[str, bool] | None:
        """Return the near test that notices a mutant, and whether by taking too long; add tests to `ran`."""
        left = NEAR_SECONDS + (COMPILING_SECONDS if mutant.module.startswith(COMPILED) else 0.0)
        for tests in self.rings.near_tests(mutant.module):
            while left > 0 and not self.broken.issuperset(tests):
                result = self._run_near(mutant, tests, left)
                ran.update(result.tests)
                if result.status in PASSED:
                    left -= sum(seconds for _, seconds in result.tests.values())
                    break
                culprit = _culprit(result, tests)
                if self._passes_unchanged(culprit):
                    return culprit, result.status == TIMEOUT
        return None

    def _run_near(self, mutant: Mutant, tests: list[str], seconds: float) -> Result:
        limit = GRACE_SECONDS + seconds + TEST_SECONDS
        with self._planted(mutant) as place:
            return self.trees.pytest(
                place,
                [test for test in tests if test not in self.broken],
                limit,
                seconds=seconds,
                test_seconds=TEST_SECONDS,
                left_out=sorted(self.broken),
            )

    def _passes_unchanged(self, test: str) -> bool:
        """Whether a test, or the import of a test file, passes on the unchanged tree.

        A test that does not is named, and left out from now on.
        """
        problem = self.baseline.problem(test, TEST_SECONDS)
        if problem:
            self.broken.add(test)
            click.echo(problem, err=True)
        return not problem

    def _noticed(self, mutant: Mutant, tests: dict[str, float]) -> tuple[str, bool] | None:
        """Return the test that notices a mutant, and whether it did so by taking too long."""
        if not tests:
            return None
        with self._planted(mutant) as place:
            result = self.trees.pytest(place, list(tests), _limit(sum(tests.values())))
        return None if result.status == 0 else (_culprit(result, list(tests)), result.status == TIMEOUT)

    def _noticed_by_script(self, mutant: Mutant, command: tuple[str, ...]) -> tuple[str, bool] | None:
        seconds = self.baseline.measured(*command).total
        with self._planted(mutant) as place:
            result = self.trees.python(place, command, _limit(seconds))
        return None if result.status == 0 else (command[0], result.status == TIMEOUT)

    def _planted(self, mutant: Mutant):
        source = (self.trees.base / mutant.module).read_bytes()
        return self.trees.copy({mutant.module: mutant.change.applied(source)})

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
    """Return the test that failed, or that ran when the process ended; without any, the first of `tests`."""
    return next(iter([*result.failed(), *reversed(result.tests)]), tests[0])
