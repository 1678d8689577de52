"""A trial tells cycles, or in one line why there are none."""

import pytest
from generators.expressions import convolution

from vdla.compiler.codegen.choose import cycles_of
from vdla.compiler.codegen.derived.kernels import kernels_of
from vdla.compiler.codegen.derived.points import Points
from vdla.compiler.codegen.derived.trial import Trial, bytes_of, tried, verify_stream
from vdla.compiler.codegen.stream import compile_stream
from vdla.compiler.ir.nodes import Buffer, IrError
from vdla.hw.spec.errors import VdlaError
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target


@pytest.fixture(scope="module")
def func():
    (kernel,) = kernels_of(convolution(TINY).output, TINY)
    points = Points(kernel, Target(TINY), most=50)
    return points.program(points.point(0))


def test_a_legal_program_has_cycles(func):
    assert tried(lambda: func, Target(TINY)) == Trial(cycles_of(compile_stream(func, TINY)))


def test_a_program_that_does_not_fit_has_a_reason(func):
    tight = TINY.with_changes(name="tight", inp_buffer_bytes=16)
    trial = tried(lambda: func, Target(tight))
    assert trial.cycles is None
    assert trial.reason.startswith("buffer XP of ")
    assert "\n" not in trial.reason


def test_the_first_line_of_an_error_is_the_reason():
    def refused():
        raise IrError("no\nloops")

    assert tried(refused, Target(TINY)) == Trial(None, "no")


def test_other_errors_are_faults():
    def faulty():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tried(faulty, Target(TINY))


def test_an_unsafe_stream_is_refused(func):
    """Tensors that lie over each other are written while they are read."""
    stream = compile_stream(func, TINY)
    verify_stream(stream, {param.name: bytes_of(param) for param in func.params})
    with pytest.raises(VdlaError):
        verify_stream(stream, dict.fromkeys((param.name for param in func.params), 0))


def test_bytes_count_all_elements():
    assert bytes_of(Buffer("P", (3, 4, 1, 4), "int32")) == 192
