"""Compiled functions: their arguments, and machine code that later processes load without numba."""

import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from typing import NamedTuple

import numpy as np
import pytest

from vdla.sim import compiled
from vdla.sim.machine_code import FOLDER, SUFFIX, read_code, write_code

SOURCE = """
from vdla.sim.compiled import part, whole

@part
def doubled(value):
    return 2 * value

@whole
def work(state, table, pair, flags, number):
    for row in range(table.shape[0]):
        for column in range(table.shape[1]):
            state.total += doubled(table[row, column]) * number
    pair.left[0] = pair.right + flags.size
    flags[0] = not flags[0]
"""
STATE = np.dtype([("count", np.int64), ("total", np.int64)])


class Pair(NamedTuple):
    left: np.ndarray
    right: int


@pytest.fixture
def module(tmp_path):
    return loaded(tmp_path)


def loaded(folder, source=SOURCE):
    """Return the module of `source` as a new process would have it."""
    (folder / "sample.py").write_text(source)
    spec = spec_from_file_location("sample", folder / "sample.py")
    sys.modules["sample"] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(module):
    state, left, flags = np.zeros(1, STATE), np.zeros(1, np.int32), np.zeros(3, bool)
    module.work(state[0], np.arange(6).reshape(2, 3), Pair(left, 4), flags, 10)
    return int(state[0]["total"]), int(left[0]), flags.tolist()


RESULT = 300, 7, [True, False, False]


@pytest.fixture
def without_numba(monkeypatch):
    monkeypatch.setitem(sys.modules, "vdla.sim.compiling", None)  # importing it is an ImportError


def test_arrays_records_named_tuples_and_numbers_are_passed(module):
    assert run(module) == RESULT


def test_a_part_stays_plain_python(module):
    assert module.doubled(3) == 6


def test_kept_machine_code_runs_without_numba(tmp_path, request):
    assert run(loaded(tmp_path)) == RESULT
    request.getfixturevalue("without_numba")
    assert run(loaded(tmp_path)) == RESULT


def test_machine_code_that_was_altered_is_not_run(tmp_path, request):
    run(loaded(tmp_path))
    (file,) = (tmp_path / "__pycache__").glob(f"*{SUFFIX}")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    request.getfixturevalue("without_numba")
    with pytest.raises(ImportError):
        run(loaded(tmp_path))


def test_machine_code_of_other_sources_is_not_run(tmp_path, request, monkeypatch):
    run(loaded(tmp_path))
    monkeypatch.setattr(compiled, "revision", lambda folder: "other")
    request.getfixturevalue("without_numba")
    with pytest.raises(ImportError):
        run(loaded(tmp_path))


def test_machine_code_of_functions_that_were_changed_is_not_run(tmp_path, request):
    assert run(loaded(tmp_path)) == RESULT
    compiled.revision.cache_clear()  # as in a new process
    assert run(loaded(tmp_path, SOURCE.replace("return 2 *", "return 2 * 2 *"))) == (600, *RESULT[1:])


def test_arrays_with_gaps_are_refused(module):
    with pytest.raises(AssertionError, match="contiguous"):
        module.work(
            np.zeros(1, STATE)[0], np.zeros((4, 4), int)[:, ::2], Pair(np.zeros(1), 1), np.zeros(1), 1
        )


def test_machine_code_is_kept_in_the_cache_where_the_sources_cannot_be_written_to(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "code").write_text("a file where the sources' folder would be")
    source = tmp_path / "code" / "sample.py"
    write_code(source, "work", "key", b"code")
    assert read_code(source, "work", "key") == b"code"
    assert read_code(source, "work", "other") is None
    assert len(list((tmp_path / "cache" / FOLDER).rglob(f"*{SUFFIX}"))) == 1


def test_machine_code_that_can_be_kept_nowhere_is_not_kept(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path / "file"))
    write_code(tmp_path / "file" / "sample.py", "work", "key", b"code")
    assert read_code(tmp_path / "file" / "sample.py", "work", "key") is None


def test_the_cycle_simulator_and_the_verifier_start_without_numba():
    text = "import sys, vdla.sim.timing.simulate, vdla.sim.verify.verifier; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=os.environ)
    assert done.stdout == "False\n", done.stderr


def test_a_function_that_can_raise_is_refused(tmp_path):
    module = loaded(tmp_path, SOURCE.replace("range(table.shape[0])", "range(0, table.shape[0], number)"))
    with pytest.raises(AssertionError, match="something in it can raise an exception"):
        run(module)


def test_arguments_of_other_types_and_extents_get_their_own_machine_code(module):
    assert run(module) == RESULT
    state, left, flags = np.zeros(1, STATE), np.zeros(2, np.int16), np.zeros(5, bool)
    for table in (np.ones((3, 4), np.int8), np.ones((2, 6), np.int8), np.ones((1, 1), np.int64)):
        module.work(state[0], table, Pair(left, 4), flags, 1)
    assert (int(state[0]["total"]), int(left[0])) == (2 * (12 + 12 + 1), 9)


def test_records_inside_an_array_are_changed_in_place(module):
    states = np.zeros(3, STATE)
    module.work(states[1], np.ones((1, 5), int), Pair(np.zeros(1, int), 4), np.zeros(1, bool), 1)
    assert states["total"].tolist() == [0, 10, 0]
