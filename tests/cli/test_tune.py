"""`vdla tune`: what it prints and writes, and its errors."""

import os
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest

from tests.cli.commands import invoke
from tests.cli.models import model
from tests.compiler.codegen.tuned.records import record
from vdla.compiler.codegen.tuned.log import TuningLog, read_log, write_log
from vdla.compiler.codegen.tuned.record import merged

VDLA = """
import signal
from vdla.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job starts with it ignored
main(prog_name="vdla")
"""


GAIN = r"[\d,]+ cycles by the default choices, [\d,]+ by the best \([+-][\d.]+%\)"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.onnx").write_bytes(model().SerializeToString())
    return tmp_path


def tune(*arguments: object):
    """Tune the network on a small target with random choices."""
    return invoke(
        "tune", "net.onnx", "-o", "log", "--config", "tiny", "--explorer", "random", "--jobs", 1, *arguments
    )


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """Return the folder of a tuning, and what it printed."""
    place, before = tmp_path_factory.mktemp("tuned"), os.getcwd()
    os.chdir(place)
    try:
        (place / "net.onnx").write_bytes(model().SerializeToString())
        return place, tune("--trials", 24, "--seed", 3)
    finally:
        os.chdir(before)


def test_a_tuning_says_what_it_reached_and_how_to_use_it(tuned):
    place, done = tuned
    assert done.exit_code == 0, done.output
    *rows, network, total, log, use = done.stdout.splitlines()
    assert rows[0].split() == ["layer", "default", "best", "change", "bound", "trials"]
    assert all(row.split()[3].startswith("-") for row in rows[1:])
    assert re.fullmatch(f"net.onnx on tiny: {GAIN}", network)
    assert re.fullmatch(f"sum of the layers, each alone: {GAIN}", total)
    assert log.startswith("log: 24 trials, 24 of them measured now in ")
    for part in ("lowering", "verification", "simulation"):
        assert f" ms {part}" in log
    assert use == "use it: vdla compile net.onnx --config tiny -o net.vdla --tuned log"
    assert done.stderr.startswith("0 of 24 trials")
    records = read_log(place / "log").records
    assert {entry.target for entry in records} == {"tiny"}
    assert max(entry.trial for entry in records) == 24
    assert {entry.seed for entry in records if entry.trial} == {3}


def test_the_same_command_measures_nothing_again_and_more_trials_go_on(tuned, folder):
    (folder / "log").write_bytes((tuned[0] / "log").read_bytes())
    again = tune("--trials", 24, "--seed", 3)
    assert "log: 24 trials, 0 of them measured now" in again.stdout
    assert (folder / "log").read_bytes() == (tuned[0] / "log").read_bytes()
    assert again.stdout.splitlines()[:-2] == tuned[1].stdout.splitlines()[:-2]  # it is settled already
    assert "log: 26 trials, 2 of them measured now" in tune("--trials", 26, "--seed", 3).stdout


def test_what_is_tuned_is_compiled(tuned, folder):
    done = invoke("compile", "net.onnx", "-o", "net.vdla", "--config", "tiny", "--tuned", tuned[0] / "log")
    (said,) = [line for line in done.stdout.splitlines() if line.startswith("tuned")]
    count = len({entry.task for entry in read_log(tuned[0] / "log").records})
    assert said == f"tuned: {count} of {count} tasks by {tuned[0] / 'log'}"


def test_the_command_that_uses_the_log_works_as_printed(folder):
    done = tune("--trials", 4, "--set", "memory.latency=65", "--set", "clock_mhz=50")
    use = done.stdout.splitlines()[-1].removeprefix("use it: ")
    assert use.startswith(
        "vdla compile net.onnx --config tiny --set memory.latency=65 --set clock_mhz=50 -o "
    )
    compiled = invoke(*shlex.split(use)[1:])
    assert compiled.exit_code == 0, compiled.output
    assert "tuned: 3 of 3 tasks by log" in compiled.stdout


def test_records_name_the_layers_and_the_network(tuned):
    records = read_log(tuned[0] / "log").records
    defaults = [entry for entry in records if entry.explorer == "default"]
    assert all(entry.layers for entry in defaults)
    together = [entry for entry in records if entry.network]
    assert {entry.task: entry.layers for entry in defaults} == {
        entry.task: entry.layers for entry in together
    }
    assert {entry.model for entry in together} == {"net.onnx"}
    assert all(entry.before >= entry.cycles for entry in together)


def test_a_torn_log_goes_on(tuned, folder):
    lines = (tuned[0] / "log").read_bytes().splitlines(keepends=True)
    trials = b"".join(line for line in lines if b'"network":""' in line)
    (folder / "log").write_bytes(trials[:-5])
    done = tune("--trials", 24, "--seed", 3)
    assert done.stderr.startswith("log: its last line was torn, and is measured again\n")
    assert "1 of them measured now" in done.stdout
    assert merged(read_log(folder / "log").records) == merged(read_log(tuned[0] / "log").records)


def test_a_torn_settlement_is_settled_again(tuned, folder):
    (folder / "log").write_bytes((tuned[0] / "log").read_bytes()[:-5])
    done = tune("--trials", 24, "--seed", 3)
    assert "net.onnx on tiny: " in done.stdout
    assert merged(read_log(folder / "log").records) == merged(read_log(tuned[0] / "log").records)


def test_without_settling_the_log_has_trials_alone(folder):
    done = tune("--trials", 4, "--no-settle")
    assert "net.onnx on tiny: " not in done.stdout
    assert {entry.network for entry in read_log(folder / "log").records} == {""}


@pytest.mark.parametrize(
    ("arguments", "usage"),
    [
        (["--help"], "Usage: main tune [OPTIONS] MODEL.onnx\n"),
        ([], "Usage: main tune [OPTIONS] MODEL.onnx\nTry 'main tune --help' for help.\n"),
        (["merge", "--help"], "Usage: main tune merge [OPTIONS] LOG...\n"),
    ],
)
def test_usage_names_the_words_that_are_typed(arguments, usage):
    assert invoke("tune", *arguments).output.startswith(usage)


def test_logs_are_merged(folder):
    records = [record(100 - place, place) for place in range(5)]
    write_log(records[:3], folder / "a")
    write_log(records[2:], folder / "b")
    with (folder / "b").open("ab") as file:
        file.write(b"torn")
    done = invoke("tune", "merge", "a", "b", "-o", "c")
    assert (done.exit_code, done.stdout) == (0, "c: 5 records of 1 task\n")
    assert done.stderr == "b: its last line is torn, and left out\n"
    assert list(read_log(folder / "c").records) == records


def test_bad_input_is_one_line_and_status_2(folder):
    write_log([record()], folder / "log")
    (folder / "bad").write_bytes(b"x\n")
    (folder / "text.onnx").write_text("x")
    held = TuningLog(folder / "held")
    for arguments, message in (
        (("net.onnx", "-o", "bad"), "bad, line 1 is damaged; delete that line"),
        (("net.onnx", "-o", "held"), "held is in use by another process; wait for it"),
        (("net.onnx", "-o", folder), "cannot be written: Is a directory"),
        (("text.onnx", "-o", "log"), "text.onnx"),
        (("net.onnx", "-o", "log", "--config", "none"), "none is neither a preset"),
        (("merge", "log", "bad", "-o", "c"), "bad, line 1 is damaged"),
        (("merge", "log", "-o", "bad"), "bad exists; name it among the logs"),
    ):
        done = invoke("tune", *arguments, *(() if arguments[0] == "merge" else ("--trials", 1)))
        assert (done.exit_code, done.stderr.count("\n")) == (2, 1), done.output
        assert message in done.stderr
    held.close()
    done = tune("--jobs", 1, "--cluster", "tcp://127.0.0.1:9")
    assert (done.exit_code, "--jobs is for this machine" in done.stderr) == (2, True)
    done = tune("--resource", "vdla")
    assert (done.exit_code, "give its scheduler with --cluster" in done.stderr) == (2, True)


def test_an_interrupted_tuning_ends_at_once_keeps_everything_and_says_how_to_go_on(folder):
    line = [sys.executable, "-c", VDLA, "tune", "net.onnx", "-o", "log", "--config", "tiny"]
    line += ["--explorer", "random", "--jobs", "2", "--trials", "3000"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        line, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    log = folder / "log"
    while not (log.exists() and log.read_bytes().count(b"\n") > 12):
        assert process.poll() is None, "the tuning ended before it could be interrupted"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    errors = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    kept = read_log(log)
    assert not kept.torn
    assert (
        f"log keeps {len(kept.records)} records; the same command goes on from there\ninterrupted\n" in errors
    )
    assert "Traceback" not in errors
