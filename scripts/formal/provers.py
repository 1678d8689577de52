"""Circuits to and-inverter graphs by Yosys, and their proofs by ABC."""

import re
import sys
import time
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from subprocess import TimeoutExpired
from tempfile import TemporaryDirectory

from vdla.hw.spec.children import Finished, run
from vdla.hw.spec.errors import ToolError
from vdla.hw.spec.extras import require_package

PURPOSE = "proving properties of the RTL"
TOP = "proof"
SECONDS_FOR_YOSYS = 300
NICE = ("nice",)
MESSAGE_CHARACTERS = 500
LATE = 20
"""Seconds after its time limit at which a prover is ended that has not ended itself."""

TO_AIGER = """
read_rtlil design.il
hierarchy -top proof
proc
flatten
setundef -undriven -anyseq
opt_clean
async2sync
chformal -lower
memory -nomap
memory_map -formal
opt -fast
techmap
opt -fast
dffunmap
setundef -undriven -anyseq
aigmap
opt_clean
write_aiger -B -zinit -symbols design.aig
"""
"""Undefined values become free inputs before anything is optimised, else Yosys chooses them as it likes.
`techmap` leaves more of them, for shifts out of range. Registers without an initial value start as inputs."""

RUN_YOSYS = """
import sys
from pyosys import libyosys
design = libyosys.Design()
for line in sys.stdin.read().split("\\n"):
    if line:
        libyosys.run_pass("tee -q -a yosys.log " + line, design)
"""


class Method(StrEnum):
    """How a circuit is proved.

    INDUCTION: for every number of cycles, by ABC's `pdr`, which finds an inductive invariant. BOUNDED: for a
    number of cycles from a reset on, by `bmc3`. EVERY_INPUT: a circuit without registers, or an unrolled
    circuit, for every input, by SAT sweeping (`&cec -m`).
    """

    INDUCTION = "induction"
    BOUNDED = "bounded"
    EVERY_INPUT = "every input"


class Verdict(StrEnum):
    """What a prover says."""

    PROVED = "proved"
    REFUTED = "refuted"
    OPEN = "not closed in time"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a prover says of a circuit.

    Attributes:
        seconds: that it took.
        cycle: in which a claim fails, counted from 0; None unless refuted.
    """

    verdict: Verdict
    seconds: float
    cycle: int | None = None


@dataclass(frozen=True, slots=True)
class Effort:
    """A method and what it may take.

    Attributes:
        cycles: of a bounded proof, or to unroll; else 0.
        seconds: after which the prover gives up.
    """

    method: Method
    cycles: int = 0
    seconds: int = 300

    @property
    def command(self) -> str:
        """The command for ABC."""
        match self.method:
            case Method.INDUCTION:
                return f"pdr -T {self.seconds}"
            case Method.BOUNDED:
                return f"bmc3 -F {self.cycles} -T {self.seconds}"
            case Method.EVERY_INPUT:
                unrolled = f"frames -i -F {self.cycles}; orpos; " if self.cycles else ""
                return f"{unrolled}&get; &cec -m -T {self.seconds}"


SAID = {
    Method.INDUCTION: "Property proved",
    Method.BOUNDED: "No output asserted in {cycles} frames",
    Method.EVERY_INPUT: "Networks are equivalent",
}
"""What ABC says of a circuit whose claims hold."""

OUT_OF_TIME = re.compile("timeout|Timed out|UNDECIDED", re.IGNORECASE)
REFUTED = re.compile(r"asserted in frame (\d+)|(Networks are NOT EQUIVALENT)")


def tool_version() -> str:
    """Return the version of the package that brings Yosys and ABC.

    Raises:
        ToolError: it is not installed.
    """
    require_package("pyosys", PURPOSE)
    return f"pyosys {version('pyosys')}"


def decide(rtlil: str, effort: Effort) -> Outcome:
    """Prove or refute the claims of a circuit.

    Args:
        rtlil: a design whose top module is `TOP`, with `$check` cells.

    Raises:
        ToolError: a tool is missing or fails.
    """
    require_package("pyosys", PURPOSE)
    began = time.monotonic()
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "design.il").write_text(rtlil)
        _graph(folder)
        verdict, cycle = _proof(folder, effort)
    return Outcome(verdict, time.monotonic() - began, cycle)


def _graph(folder: Path) -> None:
    """Turn design.il into design.aig."""
    python = [sys.executable, "-P", "-c", RUN_YOSYS]
    done = run([*NICE, *python], folder, given=TO_AIGER, seconds=SECONDS_FOR_YOSYS)
    if done.status:
        raise ToolError(f"Yosys failed: {(folder / 'yosys.log').read_text()[-MESSAGE_CHARACTERS:]}")


def _proof(folder: Path, effort: Effort) -> tuple[Verdict, int | None]:
    """Prove design.aig."""
    abc = files("pyosys") / "yosys-abc"
    commands = f"read_aiger design.aig; fold; strash; orpos; {effort.command}"
    try:
        done = run([*NICE, str(abc), "-c", commands], folder, seconds=effort.seconds + LATE)
    except TimeoutExpired:
        return Verdict.OPEN, None
    if done.status:
        raise ToolError(f"ABC failed: {_end(done)}")
    return understood(done.output, effort)


def understood(output: str, effort: Effort) -> tuple[Verdict, int | None]:
    """Return the verdict that ABC prints, and the cycle in which a claim fails.

    Raises:
        ToolError: it is no known verdict.
    """
    if refuted := REFUTED.search(output):
        return Verdict.REFUTED, int(refuted[1] or 0)
    if OUT_OF_TIME.search(output):  # with the cycles that bmc3 had begun, which may be all of them
        return Verdict.OPEN, None
    if SAID[effort.method].format(cycles=effort.cycles) in output:
        return Verdict.PROVED, None
    raise ToolError(f"ABC says nothing known: {output.strip()[-MESSAGE_CHARACTERS:]}")


def _end(done: Finished) -> str:
    return (done.errors + done.output).strip()[-MESSAGE_CHARACTERS:] or f"exit status {done.status}"
