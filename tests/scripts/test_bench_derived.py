"""The comparison of derived schedules prints its figures and fails where it must."""

import pytest
from click.testing import CliRunner

from tests.loading import load_file
from vdla.compiler.codegen.derived.derive import derive
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target


def bench():
    return load_file("scripts/bench_derived.py")


@pytest.mark.slow
def test_it_prints_cycles_and_exactness():
    result = CliRunner().invoke(bench().main, ["--trials", "12", "--no-rtl"])
    assert result.exit_code == 0, result.output
    assert "C7: by hand 2" in result.output
    assert result.output.count(", exact") == 7


def test_a_wrong_result_is_counted():
    script = bench()
    case = script.EXPRESSIONS["sum of two tensors"](TINY)
    derived = derive(case.output, Target(TINY), trials=2)
    case.expected[0, 0, 0, 0] ^= 1
    lines, _ = script.failures(case, derived, on_rtl=False)
    assert lines[0] == f"functional[seed None]: 1 of {case.expected.size} values differ"
    assert len(lines) == 5  # in program order and three others, and on the cycle simulator


def test_the_bound_is_below_what_is_reached():
    script = bench()
    derived = derive(script.EXPRESSIONS["convolution"](TINY).output, Target(TINY), trials=8)
    assert 0 < script.bound(derived) <= derived.found[0].cycles
