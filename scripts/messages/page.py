"""The page docs/messages.md."""

from textwrap import fill

from messages.errors import REMEDIES, meaning
from messages.faults import FAULTS, FINDINGS, OVERWRITE, Cause, described, raised
from vdla.cli import INTERRUPTED
from vdla.hw.spec.registers import MEANING, Fault

NOTE = "<!-- Generated from the sources by `make docs`. -->\n"
WIDTH = 110
INTRODUCTION = """\
# Faults and error messages
This page lists the faults of the hardware and the errors of the kit, with their meanings and remedies. It is
for people who met such a message.

A command prints `error:` and the message. Its exit status is

| status | meaning |
|---|---|
| 0 | success |
| 1 | a check failed: `vdla check`, `vdla replay`, `vdla prove` and others |
| 2 | bad input, or an operation that failed; the message is on the error stream |
"""
FAULTS_INTRODUCTION = """
## Faults of the hardware
The hardware ends a run with a fault in the register FAULT ([registers.md](registers.md),
[microarchitecture.md](microarchitecture.md#run-control)). A driver reads the register. The devices of the kit
raise an error in its place. The examples are messages of the functional device.
"""
OVERWRITE_INTRODUCTION = """
## Streams that write themselves
Before a run, every device refuses a STORE that writes the running stream, or micro-ops that the stream loads.
The hardware does not check it ([isa.md](isa.md#store-opcode-1)).
"""
FINDINGS_INTRODUCTION = """
## Findings of the verifier
`vdla check` prints a line for each finding. `vdla run` and `Module.run` stop with a `VerificationError` that
has the first.
"""
ERRORS_INTRODUCTION = """
## Errors
All errors that a user can correct derive from `VdlaError`. A Python traceback on the command line is a defect
of the kit. `vdla replay` prints the name of the class before the message.

| error | meaning | what to do |
|---|---|---|
"""


def messages_page() -> str:
    """Return the page of faults and error messages."""
    return "".join(
        (
            NOTE,
            INTRODUCTION,
            f"| {INTERRUPTED} | interrupted by Ctrl-C |\n",
            FAULTS_INTRODUCTION,
            *map(_fault, Fault),
            OVERWRITE_INTRODUCTION,
            _example(str(raised(OVERWRITE))),
            _remedy(OVERWRITE),
            FINDINGS_INTRODUCTION,
            *map(_finding, FINDINGS),
            ERRORS_INTRODUCTION,
            *(
                f"| `{error.__name__}` | {meaning(error)} | {remedy} |\n"
                for error, remedy in REMEDIES.items()
            ),
        )
    )


def _fault(fault: Fault) -> str:
    error = raised(FAULTS[fault])
    meaning = f"Mask {fault.value:#x}: {MEANING[Fault][fault]}. The error is `{type(error).__name__}`:"
    return f"\n### FAULT.{fault.name}\n{_filled(meaning)}{_example(str(error))}{_remedy(FAULTS[fault])}"


def _finding(kind: int) -> str:
    return f"\n### {FINDINGS[kind].title}\n{_example(described(kind))}{_remedy(FINDINGS[kind])}"


def _example(message: str) -> str:
    return f"```\n{message}\n```\n"


def _remedy(cause: Cause) -> str:
    return _filled(f"**What to do.** {cause.remedy}")


def _filled(text: str) -> str:
    return fill(text, WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"
