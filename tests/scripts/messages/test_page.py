"""docs/messages.md: each fault, finding and error of the sources has an entry, and no other has."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest
from messages.errors import REMEDIES, meaning
from messages.faults import FAULTS, FINDINGS, OVERWRITE, described, raised
from messages.page import messages_page

from tests.test_import_floors import PACKAGE, find_modules
from vdla.hw.spec.errors import OverwriteError, VdlaError
from vdla.hw.spec.registers import Fault
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.registers import error_of
from vdla.sim.verify import touch
from vdla.sim.verify.verifier import Finding

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "messages.md").read_text()


def error_classes() -> set[str]:
    """Return the names of the classes of the package that derive from VdlaError."""
    bases = {
        node.name: {base.id for base in node.bases if isinstance(base, ast.Name)}
        for file in find_modules(PACKAGE).values()
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    }
    names = {VdlaError.__name__}
    while more := {name for name, above in bases.items() if above & names} - names:
        names |= more
    return names - {VdlaError.__name__}


def test_the_page_is_that_of_the_sources():
    assert messages_page() == PAGE, "run `make docs`"


def test_the_page_has_every_fault_and_no_other():
    assert re.findall(r"^### FAULT\.(\w+)\nMask (\w+):", PAGE, re.MULTILINE) == [
        (fault.name, f"{fault.value:#x}") for fault in Fault
    ]
    assert set(FAULTS) == set(Fault)


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name)
def test_the_simulated_devices_raise_the_error_that_the_rtl_device_makes_of_the_fault(fault):
    cause = FAULTS[fault]
    word = int.from_bytes(cause.stream[: cause.runs_on.instruction_bytes], "little")
    expected = type(error_of(fault, 0, 1, lambda index: word, cause.runs_on))
    assert type(raised(cause)) is expected
    with pytest.raises(expected):
        CycleDevice(cause.runs_on, 1 << 16).execute(cause.stream)


def test_the_page_has_every_kind_of_finding_and_no_other():
    kinds = re.search(r"kind: ([A-Z, or]+) of", Finding.__doc__)[1]
    assert set(FINDINGS) == {getattr(touch, name) for name in re.findall(r"[A-Z]{2,}", kinds)}
    assert len(FINDINGS) == 5
    for kind, cause in FINDINGS.items():
        assert f"### {cause.title}\n```\n{described(kind)}\n```\n" in PAGE


def test_a_stream_that_writes_itself_is_refused():
    assert isinstance(raised(OVERWRITE), OverwriteError)


def test_the_page_has_every_error_and_no_other():
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| .+ \|$", PAGE, re.MULTILINE)
    assert rows == [(error.__name__, meaning(error)) for error in REMEDIES]
    assert {name for name, _ in rows} == error_classes()
    assert all(text.endswith(".") for _, text in rows)


def test_a_program_that_runs_to_its_end_is_no_cause():
    with pytest.raises(ValueError, match="runs to its end"):
        raised(replace(FAULTS[Fault.UNFINISHED], program="FINISH()"))
