"""`--tuned`: what `vdla compile` and `vdla run` say and do with a log, and the same from Python."""

import numpy as np
import pytest

import vdla
from tests.cli.commands import invoke
from tests.cli.models import model
from tests.compiler.codegen.tuned.records import record
from vdla.compiler.codegen.space import space_of
from vdla.compiler.codegen.tuned.log import write_log
from vdla.compiler.network.plan_cache import cached_graph
from vdla.compiler.network.source import Source
from vdla.compiler.network.stages import parts_of, tasks_of
from vdla.compiler.tasks.base import choice_to_json
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target

TARGET = Target(TINY)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.onnx").write_bytes(model().SerializeToString())
    write_log(records()[:1], tmp_path / "log")
    return tmp_path


def records(**changes):
    """Return a record of a choice for each task of the network that has several."""
    _, parted = parts_of(cached_graph(Source(model().SerializeToString())), TARGET)
    spaces = [space_of(task, TARGET) for task in tasks_of(parted)]
    chosen = [space for space in spaces if len(space) > 1]
    return [
        record(9, task=str(space.task), choice=choice_to_json(space.choice(1)), **changes) for space in chosen
    ]


def compiled(*arguments: object):
    """Compile; return the lines that are printed."""
    done = invoke("compile", "net.onnx", "-o", "net.vdla", "--config", "tiny", *arguments)
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def test_the_summary_says_for_which_layers_there_was_no_record(folder):
    (said,) = [line for line in compiled("--tuned", "log") if line.startswith("tuned")]
    assert said == "tuned: 1 of 3 tasks by log, none for: P, G"


def test_all_layers_have_records_and_the_second_time_says_the_same(folder):
    write_log(records(), folder / "log")
    said = [line for line in compiled("--tuned", "log") if line.startswith("tuned")]
    assert said == [f"tuned: {len(records())} of {len(records())} tasks by log"]
    assert [line for line in compiled("--tuned", "log") if line.startswith("tuned")] == said


def test_records_of_another_version_are_measured_again(folder):
    write_log(records(version="old"), folder / "log")
    (said,) = [line for line in compiled("--tuned", "log") if line.startswith("tuned")]
    assert "measured again for this version of the kit" in said or "no longer better" in said


def test_without_a_log_nothing_is_said_of_networks_that_the_kit_has_no_records_for():
    assert not [line for line in compiled() if line.startswith("tuned")]
    assert not [line for line in compiled("--tuned", "none") if line.startswith("tuned")]


def test_another_target_has_no_records(folder):
    (said,) = [
        line for line in compiled("--tuned", "log", "--set", "memory.latency=65") if line.startswith("tuned")
    ]
    name = records()[0].target
    assert said.startswith(f"tuned: no task, because log holds records of {name}")
    assert "and no record of this target" in said


@pytest.mark.parametrize("data", [b"x\n", None])
def test_a_log_that_cannot_be_read_is_one_line_and_status_2(folder, data):
    if data is not None:
        (folder / "bad").write_bytes(data)
    for command in (("compile", "net.onnx", "-o", "x.vdla"), ("run", "net.onnx")):
        done = invoke(*command, "--tuned", "bad")
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
        assert done.stderr.startswith("error: bad")


def test_a_torn_log_is_told_and_used(folder):
    (folder / "log").open("ab").write(b"0123")
    done = invoke("compile", "net.onnx", "-o", "net.vdla", "--config", "tiny", "--tuned", "log")
    assert done.stderr == "log: its last line is torn, and left out\n"
    assert "tuned: 1 of 3 tasks by log" in done.stdout


def test_a_compiled_module_takes_no_log():
    compiled()
    done = invoke("run", "net.vdla", "--tuned", "log")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "is compiled already, so --tuned cannot change it" in done.stderr


def test_run_and_the_python_interface_use_the_same_choices(folder):
    write_log(records(), folder / "log")
    done = invoke("run", "net.onnx", "--config", "tiny", "--tuned", "log", "--device", "cycle", "--json")
    assert done.exit_code == 0
    assert f"tuned: {len(records())} of {len(records())} tasks by log" in done.stderr
    tuned, plain = (vdla.compile("net.onnx", "tiny", tuning=log) for log in (folder / "log", "none"))
    assert (tuned.tuning.with_record, tuned.tuning.without_record) == (len(records()), ())
    assert plain.tuning.with_record == 0
    assert len(plain.tuning.without_record) == len(records())
    image = {"x": np.random.default_rng(0).normal(size=(1, 1, 8, 8)).astype(np.float32)}
    runs = [module.run(image, "cycle") for module in (tuned, plain)]
    assert runs[0].report.cycles != runs[1].report.cycles
    assert f'"cycles": {runs[0].report.cycles},' in done.stdout
    np.testing.assert_array_equal(runs[0].outputs["y"], runs[1].outputs["y"])
