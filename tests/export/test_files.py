"""The files of a module as C: registers, errors, names, and what is refused."""

import re
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from exported.board import build

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import HANDMADE, Net
from tests.export.graphs import exported
from vdla.export.c_text import ExportError, array, comment, identifiers, number
from vdla.export.files import DRIVER_ERRORS, FAULT_ORDER, errors, files_of, registers_header
from vdla.export.operators import FORMS
from vdla.hw.spec.registers import IDENTITY, MEANING, OFFSETS, VERSION, Fault
from vdla.runtime.devices.registers import error_of
from vdla.runtime.module.plan import HostStep

DEFINED = re.compile(r"^#define VDLA_(\w+) (0x[0-9a-f]+|\d+)u", re.MULTILINE)


def test_the_header_has_every_register_and_every_bit():
    macros = {name: int(value, 0) for name, value in DEFINED.findall(registers_header())}
    bits = {
        f"{kind.__name__.upper()}_{bit.name}": bit.value for kind, bits in MEANING.items() for bit in bits
    }
    assert macros == {**OFFSETS, **bits, "IDENTITY_VALUE": IDENTITY, "VERSION_VALUE": VERSION}


def test_faults_have_the_order_in_which_the_kit_reports_them():
    assert set(FAULT_ORDER) == set(Fault)
    config = exported("views").config
    for place, fault in enumerate(FAULT_ORDER):
        alone, all_behind = (
            error_of(Fault(bits), 0, 1, lambda _: 0, config) for bits in (fault, sum(FAULT_ORDER[place:]))
        )
        assert (type(alone), str(alone)) == (type(all_behind), str(all_behind))


def test_every_error_has_a_meaning():
    assert len(errors()) == len(DRIVER_ERRORS) + len(Fault) + 1
    assert all(errors().values())


NAMES = {
    "a/b": "a_b",
    "a.b": "a_b_2",
    "A_b": "A_b_3",
    "input.1": "input_1",
    "1x": "x1x",
    "float": "float_",
    "_y": "x_y",
    "": "x_",
    "ä": "x_",
}


def test_names_become_different_identifiers():
    assert identifiers(NAMES) == {**NAMES, "ä": "x__2"}


def test_a_comment_cannot_be_ended_by_a_name():
    assert comment("a */ b\\ /* c??/ \n") == "/* a __ b_ __ c___ _ */"


NUMBERS = [
    (np.float32(0.1), "0x1.99999a0000000p-4f"),
    (np.float32(-0.0), "-0x0.0p+0f"),
    (np.float32("nan"), "NAN"),
    (np.float32("-inf"), "-INFINITY"),
    (np.int8(-128), "-128"),
    (np.int64(-5), "INT64_C(-5)"),
    (np.int64(-(2**63)), "INT64_MIN"),
    (np.uint64(2**64 - 1), "UINT64_C(0xffffffffffffffff)"),
    (np.bool_(True), "1"),
]


@pytest.mark.parametrize(("value", "text"), NUMBERS)
def test_a_number_is_a_literal_of_its_type(value, text):
    assert number(value) == text


def test_an_array_has_its_extent():
    assert array("int8_t x", np.array([[1, 2]], np.int8)) == "int8_t x[2] = {\n    1, 2,\n};\n"


@pytest.mark.parametrize("name", ["2x", "a-b", "", "Upper", "vdla", "vdla_x", "int", "x" * 65, "ä"])
def test_a_name_that_c_does_not_take_is_refused(name):
    with pytest.raises(ExportError, match="is no prefix of C identifiers; give --name with"):
        files_of(exported("views"), name)


def test_an_operator_without_a_c_form_is_refused_with_its_layer():
    net = Net()
    x = net.requantise(net.input(2, 6))
    plan = plan_of(net.graph(net.op("Sign", (x,))))
    with pytest.raises(ExportError) as caught:
        files_of(plan, "net")
    text = str(caught.value)
    assert text.startswith("Sign the Sign on the host has no C form: C has Add, ArgMax, ")
    assert text.endswith(
        "; cut the network before it with `vdla compile --outputs`, and compute the rest on the CPU, or run "
        "the module with `vdla run`"
    )
    assert all(op in text for op in FORMS)


def test_a_network_without_a_launch_is_refused():
    plan = plan_of(HANDMADE["only the host"](Net()))
    with pytest.raises(ExportError, match="runs nothing on the accelerator"):
        files_of(plan, "net")


def test_a_hostile_name_of_a_layer_stays_in_its_comment(tmp_path):
    plan = exported("with the host between")
    steps = tuple(
        msgspec.structs.replace(step, name="*/ error /*\\") if isinstance(step, HostStep) else step
        for step in plan.steps
    )
    build(replace(plan, steps=steps), tmp_path)
    assert "/* Transpose __ error ___ */" in (tmp_path / "net.c").read_text()
