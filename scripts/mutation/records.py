"""Results of campaigns: verdicts, one JSON object a line, and the table of equivalent mutants."""

import json
import threading
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from mutation.judge import Verdict
from mutation.sample import Mutant, mutants_of

Place = tuple[str, str, str]  # module, line before, line after


class Records:
    """Verdicts on the mutants of one tree, in a file that is only appended to; the last on a mutant counts.

    Args:
        path: of the file.
        tree: digest of the sources; verdicts on other sources are passed over.
    """

    def __init__(self, path: Path, tree: str) -> None:
        self._path, self._tree, self._lock = path, tree, threading.Lock()
        self._verdicts: dict[tuple, Verdict] = {}
        for line in path.read_text().splitlines() if path.exists() else ():
            entry = json.loads(line)
            if entry["tree"] == tree:
                self._verdicts[entry["module"], entry["start"], entry["after"]] = Verdict(**entry["verdict"])

    def verdict(self, mutant: Mutant) -> Verdict | None:
        """Return the last verdict on a mutant; None where there is none."""
        return self._verdicts.get(mutant.key)

    def add(self, mutant: Mutant, verdict: Verdict, seed: int, tests: str) -> None:
        """Append a verdict.

        Args:
            tests: digest of the tests.
        """
        entry = {
            "seed": seed,
            "tree": self._tree,
            "tests": tests,
            "module": mutant.module,
            "line": mutant.change.line,
            "operator": mutant.change.operator,
            "start": mutant.change.start,
            "before": mutant.before,
            "after": mutant.after,
            "verdict": asdict(verdict),
        }
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
        self._verdicts[mutant.key] = verdict


@dataclass(frozen=True, slots=True)
class Equivalents:
    """Mutants that somebody has judged to mean the same as the original, with the reason.

    Attributes:
        reasons: by module, line before and line after.
    """

    reasons: Mapping[Place, str]

    @classmethod
    def read(cls, path: Path) -> "Equivalents":
        """Read a table; every entry has `module`, `line`, `replacement` and `reason`."""
        entries = tomllib.loads(path.read_text(encoding="utf-8")).get("equivalent", [])
        return cls(
            {(entry["module"], entry["line"], entry["replacement"]): entry["reason"] for entry in entries}
        )

    def holds(self, mutant: Mutant) -> bool:
        """Whether a mutant is in the table."""
        return (mutant.module, mutant.before, mutant.after) in self.reasons

    def stale(self, modules: Mapping[str, bytes]) -> list[str]:
        """Return a sentence for every entry that no longer is a mutant of the sources."""
        offered = {
            module: {(mutant.before, mutant.after) for mutant in mutants_of(module, modules[module])}
            for module in {place[0] for place in self.reasons} & modules.keys()
        }
        return [
            f"{module}: {before}  ->  {after} is no mutant of the sources any more; remove or mend the entry"
            for module, before, after in self.reasons
            if (before, after) not in offered.get(module, ())
        ]
