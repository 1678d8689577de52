"""What provers have said, kept between runs in a journal by a digest of the circuit and the method."""

from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from formal.provers import TO_AIGER, Effort, Outcome, Verdict, decide, tool_version
from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.errors import VdlaError
from vdla.runtime.journal import Appender, Kind


class LedgerError(VdlaError):
    """The journal of proofs cannot be used."""


KIND = Kind(
    LedgerError,
    cure="delete the file, and prove again",
    again="make room, and prove again",
    busy="wait for it, or name another folder",
)


class Entry(msgspec.Struct, frozen=True):
    """One line: what a prover has said of one circuit."""

    key: str
    verdict: Verdict
    seconds: float
    cycle: int | None


class Ledger:
    """Decides circuits that were not decided before.

    A circuit is known by its RTLIL, which holds the component, the claims and the assumptions, with the
    commands for the tools and their version. What was not closed in time is tried again.

    Args:
        path: of the journal; its folder is created.

    Raises:
        LedgerError: the journal is damaged, in use, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = Appender(path, KIND, locks=True)
        entries = (msgspec.json.decode(text, type=Entry) for text in self._file.texts())
        self._known = {entry.key: entry for entry in entries}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._file.close()

    def decide(self, rtlil: str, effort: Effort) -> Outcome:
        """Return what the prover says, or said before; errors as in `provers.decide`."""
        key = digest_of([rtlil, TO_AIGER, effort.command, tool_version()])
        known = self._known.get(key)
        if known:
            return Outcome(known.verdict, known.seconds, known.cycle)
        outcome = decide(rtlil, effort)
        if outcome.verdict is not Verdict.OPEN:
            entry = Entry(key, outcome.verdict, outcome.seconds, outcome.cycle)
            self._file.append([msgspec.json.encode(entry)])
            self._known[key] = entry
        return outcome
