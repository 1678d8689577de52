"""Scratch copies of a tree: tests run in them, never in the user's tree.

`base` is a copy of the tree as it is. Every run gets a copy of `base` made of hard links, in which a
changed module is a new file; it is deleted afterwards. A copy carries its caches with it (Python's and
numba's in `__pycache__`, built RTL and native code below `cache`), and what an unchanged run has put into
them goes back into `base`. So no mutant ever sees what another mutant has compiled, whatever a cache's key
contains, and unchanged modules are not compiled again. Only the C++ compiler's cache is shared: its
key is the text that it compiles.
"""

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

LEFT_OUT = shutil.ignore_patterns(
    ".git",
    ".venv",
    "build",
    "dist",
    "__pycache__",
    "*.egg-info",
    ".pytest_cache",
    ".ruff_cache",
    ".hypothesis",
    "sim_build",
)
CACHE = "cache"
CACHES = (CACHE, "__pycache__")
WAITING = 10  # times the processor time that a run may take by the clock, on a machine that others use too
MEMORY_KILOBYTES = 8_000_000  # of data; address space is reserved in plenty by what runs WebAssembly
TIMEOUT = "timeout"
SCRIPTS = Path(__file__).parents[1]  # from where pytest loads the recorder


@dataclass(frozen=True, slots=True)
class Result:
    """How a command ended.

    Attributes:
        status: its exit status, TIMEOUT where it took too long.
        text: what it printed.
        seconds: by the clock.
        tests: outcome and processor time of the tests that it ran, by their ids, in order.
    """

    status: int | str
    text: str
    seconds: float
    tests: Mapping[str, tuple[str, float]] = field(default_factory=dict)

    def failed(self) -> list[str]:
        """Return the tests that failed."""
        return [test for test, (outcome, _) in self.tests.items() if outcome == "failed"]


class Stopped(Exception):
    """The campaign ends before its time."""


class Trees:
    """The scratch copies of the tree at `root`, below `folder`.

    Args:
        key: a digest of the sources, to which the caches belong; the next campaign on them finds the caches.

    Attributes:
        has_caches: a campaign before has left its caches.

    Raises:
        Stopped: of its methods, after `stop`.
    """

    def __init__(self, root: Path, folder: Path, key: str) -> None:
        self.root, self.folder, self.base = root, folder.resolve(), folder.resolve() / "base"
        self._kept, self.has_caches = self.folder / f"cache-{key}", False
        self._lock, self._numbers, self._running, self._stopped = threading.Lock(), count(), set(), False

    def __enter__(self) -> "Trees":
        self._delete("base", "copy*")
        shutil.copytree(self.root, self.base, symlinks=True, ignore=LEFT_OUT)
        self.has_caches = self._kept.exists()
        if self.has_caches:
            self._kept.rename(self.base / CACHE)
        self._delete("cache-*")
        return self

    def __exit__(self, *_: object) -> None:
        if (self.base / CACHE).exists():
            (self.base / CACHE).rename(self._kept)
        self._delete("base", "copy*")

    def _delete(self, *patterns: str) -> None:
        for place in (match for pattern in patterns for match in self.folder.glob(pattern)):
            shutil.rmtree(place, ignore_errors=True)

    @contextlib.contextmanager
    def copy(self, changed: Mapping[str, bytes]) -> Iterator[Path]:
        """Make a copy in which some files are changed; without changes, its caches are kept."""
        place = self.folder / f"copy{next(self._numbers)}"
        try:
            with self._lock:
                shutil.copytree(self.base, place, symlinks=True, copy_function=os.link)
            for path, source in changed.items():
                _replace(place / path, source)
            yield place
            if not changed:
                with self._lock:
                    _keep_caches(place, self.base)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def pytest(
        self,
        place: Path,
        tests: Sequence[str],
        limit: float,
        first: bool = True,
        seconds: float = math.inf,
        test_seconds: float = math.inf,
        left_out: Sequence[str] = (),
    ) -> Result:
        """Run tests in a copy.

        Args:
            tests: files or ids.
            limit: seconds of processor time.
            first: stop at the first failure.
            seconds: no test begins when tests have spent as many seconds of processor time.
            test_seconds: that a test may spend; it ends the run with TIMEOUT if it spends more.
            left_out: ids of tests that do not run.
        """
        record, names = place / "record.jsonl", place / "tests.txt"
        record.write_text("")
        names.write_text("\n".join(tests))
        limits = {"MUTATION_SECONDS": str(seconds), "MUTATION_TEST_SECONDS": str(test_seconds)}
        command = _pytest_command(place, names, first, left_out)
        result = self.python(place, command, limit, {"MUTATION_RECORD": str(record)} | limits)
        return Result(result.status, result.text, result.seconds, _outcomes(record))

    def python(
        self, place: Path, command: Sequence[str], limit: float, more: Mapping[str, str] | None = None
    ) -> Result:
        """Run Python in a copy, with `limit` seconds of processor time per process and bounded memory."""
        bounds = f"ulimit -d {MEMORY_KILOBYTES}; ulimit -t {round(limit)}"
        words = ["sh", "-c", f'{bounds}; exec "$@"', "sh", sys.executable, *command]
        began, log = time.monotonic(), place / "output.txt"
        with log.open("wb") as output:
            process = subprocess.Popen(
                words,
                cwd=place,
                env=self._environment(place) | (more or {}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running.add(process)
            try:
                if self._stopped:
                    raise Stopped
                status: int | str = process.wait(WAITING * limit)
            except subprocess.TimeoutExpired:
                status = TIMEOUT
            finally:
                _kill(process)
                self._running.discard(process)
        if self._stopped:
            raise Stopped
        status = TIMEOUT if status in (-signal.SIGKILL, -signal.SIGXCPU) else status  # its time was used up
        return Result(status, log.read_text(errors="replace"), time.monotonic() - began)

    def stop(self) -> None:
        """End what runs."""
        self._stopped = True
        for process in list(self._running):
            _kill(process)

    def _environment(self, place: Path) -> dict[str, str]:
        (place / "home").mkdir(exist_ok=True)
        overrides = {
            "PYTHONPATH": f"{place / 'src'}{os.pathsep}{SCRIPTS}",
            "XDG_CACHE_HOME": str(place / CACHE),
            "HOME": str(place / "home"),
            "CCACHE_DIR": str(self.folder / "ccache"),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        dropped = ("VDLA_CACHE_DIR", "NUMBA_CACHE_DIR", "PYTEST_ADDOPTS", "PYTHONPYCACHEPREFIX")
        return {name: value for name, value in os.environ.items() if name not in dropped} | overrides


def _replace(path: Path, source: bytes) -> None:
    """Put another file in the place of a link, and forget what was compiled from it."""
    path.unlink()
    path.write_bytes(source)
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()


def _keep_caches(place: Path, base: Path) -> None:
    for name in CACHES:
        for folder in [path for path in place.rglob(name) if path.is_dir()]:
            shutil.copytree(
                folder,
                base / folder.relative_to(place),
                symlinks=True,
                copy_function=_link_newer,
                dirs_exist_ok=True,
            )


def _link_newer(source: str, target: str) -> None:
    if not os.path.exists(target) or os.stat(source).st_mtime_ns > os.stat(target).st_mtime_ns:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(target)
        os.link(source, target)


def _kill(process: subprocess.Popen) -> None:
    """End a process and what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _pytest_command(place: Path, names: Path, first: bool, left_out: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments with which Python runs the tests that the file `names` lists, in a copy."""
    return (
        "-m",
        "pytest",
        "-q",
        *(["-x"] if first else []),
        "--no-header",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        "-p",
        "mutation.recorder",
        "--hypothesis-seed=0",
        f"--basetemp={place / 'temporary'}",
        *(f"--deselect={test}" for test in left_out),
        f"@{names}",
    )


def _outcomes(record: Path) -> dict[str, tuple[str, float]]:
    """Return each test's outcome: of its phases, a failure counts before a skip, and that before a pass.

    A test that has only "begun" is the last; the process ended with it.
    """
    outcomes: dict[str, tuple[str, float]] = {}
    for line in record.read_text().splitlines():
        entry = json.loads(line)
        before, seconds = outcomes.get(entry["test"], ("begun", 0.0))
        outcome = max(before, entry["outcome"], key=("begun", "passed", "skipped", "failed").index)
        outcomes[entry["test"]] = outcome, seconds + entry["seconds"]
    return outcomes
