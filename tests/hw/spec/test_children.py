"""Children end with their parent, end together, and do not import from the current folder."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from vdla.hw.spec.children import Children, end, import_path, python_command, run, start

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
PARENT = """
import os, sys, time
from vdla.hw.spec.children import start
print(start([sys.executable, "-c", "import time; time.sleep(600)"]).pid, flush=True)
time.sleep(600)
"""


def is_gone(number: int) -> bool:
    """Whether a process ends within some seconds; it may stay as a zombie, which computes nothing."""
    for _ in range(500):
        try:
            if Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_ends_with_its_parent(number):
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        os.kill(child, 0)
        parent.send_signal(number)
        assert is_gone(child)


def test_the_end_of_a_child_ends_what_it_has_started():
    text = (
        f"import subprocess; print(subprocess.Popen({SLEEP!r}).pid, flush=True); import time; time.sleep(600)"
    )
    child = start([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    grandchild = int(child.stdout.readline())
    assert end(child) == -signal.SIGKILL
    assert is_gone(grandchild)
    assert end(child) == -signal.SIGKILL
    child.stdout.close()


def test_children_of_several_threads_end_together_and_no_other_starts():
    with ThreadPoolExecutor(2) as pool, Children() as children:
        running = [pool.submit(children.run, SLEEP) for _ in range(2)]
        while len(children._running) < 2:
            time.sleep(0.01)
        children.end()
        assert [future.result().status for future in running] == [-signal.SIGKILL] * 2
        with pytest.raises(OSError, match="ended"):
            children.run(SLEEP)


def test_a_program_is_given_text_and_returns_what_it_prints(tmp_path):
    text = "import os, sys; print(input(), os.environ['A']); print(os.getcwd(), file=sys.stderr); sys.exit(3)"
    done = run([sys.executable, "-c", text], tmp_path, {"A": "b"}, "given")
    assert (done.status, done.output, done.errors) == (3, "given b\n", f"{tmp_path}\n")


def test_a_program_that_takes_too_long_is_ended():
    with pytest.raises(subprocess.TimeoutExpired):
        run(SLEEP, seconds=0.05)


def test_another_python_does_not_import_from_the_current_folder(tmp_path):
    (tmp_path / "json.py").write_text("open('marker', 'w')")
    run(python_command("json.tool"), tmp_path, given="{}")
    assert not (tmp_path / "marker").exists()


def test_a_number_whose_process_has_ended_is_left_alone(monkeypatch):
    """It may be that of another process by then."""
    child = start([sys.executable, "-c", "pass"])
    assert child.wait() == 0
    monkeypatch.setattr(os, "killpg", lambda *_: pytest.fail("another process was killed"))
    assert end(child) == 0


def test_a_program_has_the_environment_of_this_process_and_no_input():
    os.environ["VDLA_TEST_OF_CHILDREN"] = "here"
    try:
        text = "import os, sys; print(os.environ['VDLA_TEST_OF_CHILDREN'], repr(sys.stdin.read()))"
        done = run([sys.executable, "-c", text])
    finally:
        del os.environ["VDLA_TEST_OF_CHILDREN"]
    assert (done.status, done.output, done.errors) == (0, "here ''\n", "")


def test_another_python_imports_from_where_this_one_does(monkeypatch):
    monkeypatch.setattr(sys, "path", ["/one", "", "/two"])
    assert import_path() == {"PYTHONPATH": "/one:/two"}
    assert python_command("a.b", "c", "d") == [sys.executable, "-P", "-m", "a.b", "c", "d"]
