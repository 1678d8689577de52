"""A campaign: judges mutants, several at a time, notes every verdict and reports it."""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import click

from mutation.judge import Judge
from mutation.records import Records
from mutation.sample import Mutant
from mutation.summary import verdict_text


@dataclass
class Campaign:
    """Judges mutants.

    Attributes:
        records: where verdicts go.
        seed, tests: noted with them: the seed, and a digest of the tests.
    """

    judge: Judge
    records: Records
    seed: int
    tests: str
    _done: int = field(default=0, init=False)
    _began: float = field(default_factory=time.monotonic, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def run(self, mutants: list[Mutant], jobs: int) -> None:
        """Judge all `mutants`.

        Raises:
            BaselineError: a test fails on the unchanged tree.
            KeyboardInterrupt: it was interrupted; nothing runs any more.
        """
        with ThreadPoolExecutor(jobs) as pool:
            futures = [pool.submit(self._one, mutant, len(mutants)) for mutant in mutants]
            try:
                _finish(futures)
            except BaseException:
                self.judge.trees.stop()
                pool.shutdown(cancel_futures=True)
                raise

    def _one(self, mutant: Mutant, total: int) -> None:
        verdict = self.judge.judge(mutant)
        self.records.add(mutant, verdict, self.seed, self.tests)
        with self._lock:
            self._done += 1
            rate = self._done / (time.monotonic() - self._began) * 60
            left = (total - self._done) / rate
            click.echo(
                f"[{self._done}/{total}, {rate:.1f} a minute, {left:.0f} min left] "
                f"{verdict.seconds:.0f} s  {mutant}\n    {verdict_text(verdict)}",
                err=True,
            )


def _finish(futures: list[Future]) -> None:
    """Wait for all `futures`, or for the first that fails."""
    done, _ = wait(futures, return_when="FIRST_EXCEPTION")
    for future in done:
        future.result()
