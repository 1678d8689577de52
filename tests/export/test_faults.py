"""What goes wrong on the accelerator gives a named error code."""

from pathlib import Path

import numpy as np
import pytest
from exported.board import GAP, Program, build, regions

from tests.compiler.network.compiled import plan_of
from tests.compiler.network.graphs import random_inputs
from tests.export.graphs import graph_of
from vdla.export.files import FAULT_ORDER
from vdla.export.image import image_of
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.registers import Fault, Status
from vdla.runtime.device import PAGE_BYTES

TITLE = "views"
NARROW = TINY.with_changes(name="tiny on a narrow bus", axi_address_bits=32)
PLAN = plan_of(graph_of(TITLE), NARROW)
INPUTS = random_inputs(graph_of(TITLE), 0)


@pytest.fixture(scope="module")
def binary(tmp_path_factory) -> Path:
    """Return the program of a network."""
    return build(PLAN, tmp_path_factory.mktemp("c"))


@pytest.fixture
def program(binary):
    """Return a running program."""
    with Program(PLAN, binary) as running:
        yield running


@pytest.mark.parametrize("fault", list(Fault))
def test_a_fault_gives_its_error_code(program, fault):
    program.init()
    program.accelerator.fault = fault
    assert program.run(INPUTS).code == f"VDLA_FAULT_ERROR_{fault.name}"
    program.accelerator.fault = Fault(0)
    assert program.run(INPUTS).code == "VDLA_OK"


def test_the_first_of_several_faults_is_the_cause(program):
    program.init()
    for place, fault in enumerate(FAULT_ORDER):
        program.accelerator.fault = Fault(sum(FAULT_ORDER[place:]))
        assert program.run(INPUTS).code == f"VDLA_FAULT_ERROR_{fault.name}"
    program.accelerator.fault = Fault(1 << 31)
    assert program.run(INPUTS).code == "VDLA_FAULT_ERROR_UNKNOWN"


def test_a_damaged_stream_gives_the_fault_of_the_device(program):
    program.init()
    image = image_of(PLAN)
    stream = next(iter(image.streams.values()))
    word = np.full(PLAN.config.instruction_bytes, 0xFF, np.uint8)
    program.accelerator.device.copy_in(regions(image)[1] + stream.offset, word)
    assert program.run(INPUTS).code == "VDLA_FAULT_ERROR_INVALID_INSTRUCTION"


def test_a_run_without_end_times_out_and_the_next_finds_the_accelerator_busy(program):
    program.init()
    program.accelerator.ends = False
    assert program.run(INPUTS).code == "VDLA_ERROR_TIMEOUT"
    assert program.run(INPUTS).code == "VDLA_ERROR_BUSY"
    program.accelerator.ends = True
    program.accelerator.registers["STATUS"] = int(Status.DONE)
    assert program.run(INPUTS).code == "VDLA_OK"


WRONG = {"IDENTITY": "IDENTITY", "VERSION": "VERSION", "CONFIG_DIGEST": "CONFIGURATION"}


@pytest.mark.parametrize("register", WRONG)
def test_another_accelerator_is_refused(program, register):
    program.accelerator.registers[register] += 1
    assert program.init().code == f"VDLA_ERROR_{WRONG[register]}"
    assert program.run(INPUTS).code == "VDLA_ERROR_NOT_READY"


def test_a_run_before_the_initialisation_is_refused(program):
    answer = program.run(INPUTS)
    assert (answer.code, answer.cycles) == ("VDLA_ERROR_NOT_READY", 0)
    assert not any(output.any() for output in answer.outputs.values())


IMAGE = image_of(PLAN)
PLACED = regions(IMAGE)
BEYOND = 1 << PLAN.config.axi_address_width
BASES = {
    "tensors that are not aligned": (PLACED[0] + PAGE_BYTES // 2, PLACED[1]),
    "an image that is not aligned": (PLACED[0], PLACED[1] + 16),
    "an image whose end the bus does not reach": (PLACED[0], BEYOND - IMAGE.image.size + PAGE_BYTES),
    "tensors beyond the bus": (BEYOND, PLACED[1]),
    "tensors whose address wraps": ((1 << 64) - PAGE_BYTES, PLACED[1]),
}


@pytest.mark.parametrize("title", BASES)
def test_memory_that_the_accelerator_does_not_reach_is_refused(binary, title):
    with Program(PLAN, binary, bases=BASES[title]) as program:
        assert program.init().code == "VDLA_ERROR_ADDRESS"


def test_the_regions_may_be_anywhere(binary):
    outputs = []
    for offset in (0, GAP):
        with Program(PLAN, binary, bases=(PLACED[0] + offset, PLACED[1])) as program:
            assert program.init().code == "VDLA_OK"
            outputs.append(program.run(INPUTS).outputs)
    for name, expected in outputs[0].items():
        np.testing.assert_array_equal(outputs[1][name], expected)
