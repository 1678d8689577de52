"""What tests say of the unchanged tree, and the processor time of each: by the file, when first needed."""

import hashlib
import json
import math
import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mutation.graph import Imports
from mutation.trees import TIMEOUT, Result, Trees

FILE_SECONDS = 240  # for all tests of a file; tests that have not run by then are left out


COMPILING = (
    "tests/sim/verify/test_verifier.py",
    "tests/sim/timing/test_simulate.py",
    "tests/sim/timing/test_against_rtl.py",
)
"""Tests that compile the native code of the verifier and of the cycle simulator, and the RTL beside it."""


class BaselineError(Exception):
    """Something fails on the unchanged tree, so that mutants cannot be judged by it."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The tests of a file that pass, with their seconds; of a script, itself alone."""

    seconds: Mapping[str, float]

    @property
    def total(self) -> float:
        """Return the seconds of all together."""
        return sum(self.seconds.values())


class Baseline:
    """Times of tests and scripts on the unchanged tree, kept in a file.

    Args:
        trees: where they run.
        path: of the file, one JSON object a line.
        imports: of the tree; a time belongs to the texts of all files that a test file or script reaches, and
            of the helpers beside it.
    """

    def __init__(self, trees: Trees, path: Path, imports: Imports) -> None:
        self._trees, self._path, self._imports = trees, path, imports
        self._known: dict[str, Measured] = {}
        self._lock, self._locks = threading.Lock(), defaultdict(threading.Lock)
        for line in path.read_text().splitlines() if path.exists() else ():
            entry = json.loads(line)
            self._known[entry["key"]] = Measured(entry["seconds"])

    def measured(self, file: str, *arguments: str) -> Measured:
        """Return what a test file's tests take, or a script with its arguments; run it if that is not known.

        Raises:
            BaselineError: it fails.
        """
        key = self._key(file, arguments)
        with self._lock:
            lock = self._locks[key]
        with lock:
            if key not in self._known:
                outcomes = self._script(file, arguments) if arguments else self._tests(file)
                self._keep(key, file, outcomes)
        return self._known[key]

    def fill_caches(self) -> None:
        """Let the unchanged tree compile its native code, which runs on changed compilers then find."""
        files = [file for file in COMPILING if (self._trees.base / file).exists()]
        if files and not self._trees.has_caches:
            with self._trees.copy({}) as place:
                self._trees.pytest(place, files, FILE_SECONDS, first=False)

    def problem(self, test: str, test_seconds: float) -> str:
        """Return why a near test cannot judge: it does not pass on the unchanged tree. "" where it does.

        Args:
            test: an id, or a file, of which only the import is tried.
            test_seconds: how long it may take.
        """
        file, _, name = test.partition("::")
        key = self._key(file, (test,))
        with self._lock:
            lock = self._locks[key]
        with lock:
            if key not in self._known:
                with self._trees.copy({}) as place:
                    seconds = math.inf if name else 0.0
                    result = self._trees.pytest(
                        place, [test], FILE_SECONDS, seconds=seconds, test_seconds=test_seconds
                    )
                if result.status not in (0, 5):
                    return _message(result, test)
                self._keep(key, file, {test: sum(seconds for _, seconds in result.tests.values())})
        return ""

    def _keep(self, key: str, file: str, seconds: dict[str, float]) -> None:
        with self._lock, self._path.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"key": key, "file": file, "seconds": seconds}) + "\n")
        self._known[key] = Measured(seconds)

    def _key(self, file: str, arguments: tuple[str, ...]) -> str:
        beside = (
            path
            for path in self._imports.files.values()
            if path.rpartition("/")[0] == file.rpartition("/")[0] and "/test_" not in path
        )
        total = hashlib.sha256(repr((file, arguments)).encode())
        for path in sorted({*self._imports.distances(file), *beside}):
            total.update(path.encode() + hashlib.sha256((self._trees.base / path).read_bytes()).digest())
        return total.hexdigest()

    def _tests(self, file: str) -> dict[str, float]:
        with self._trees.copy({}) as place:
            result = self._trees.pytest(place, [file], FILE_SECONDS, first=False)
        if result.failed() or result.status not in (0, 5, TIMEOUT):  # 5: no tests
            raise BaselineError(_message(result, result.failed()[0] if result.failed() else file))
        return {test: seconds for test, (outcome, seconds) in result.tests.items() if outcome == "passed"}

    def _script(self, file: str, arguments: tuple[str, ...]) -> dict[str, float]:
        with self._trees.copy({}) as place:
            result = self._trees.python(place, (file, *arguments), FILE_SECONDS)
        if result.status != 0:
            raise BaselineError(_message(result, file))
        return {file: result.seconds}


def _message(result: Result, what: str) -> str:
    last = "\n".join(result.text.strip().splitlines()[-20:])
    return (
        f"{what} does not pass on the unchanged tree (status {result.status}), so it judges no mutant; "
        f"mend it. It ended with:\n{last}"
    )
