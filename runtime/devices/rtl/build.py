"""Verilog to a shared library: Verilator writes C++, the compiler makes it fast, the cache keeps it."""

import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from vdla.hw.spec.cache import digest_of
from vdla.hw.spec.children import Children
from vdla.hw.spec.config import AcceleratorConfig
from vdla.runtime.devices.rtl.cache import built
from vdla.runtime.devices.rtl.design import HERE, WRAPPER_NAME, Design, verilog_files, without_comments
from vdla.runtime.devices.rtl.tools import (
    compiler,
    compiler_version,
    processor,
    run_tool,
    verilator_root,
    verilator_version,
)
from vdla.runtime.devices.rtl.waves import WaveFormat


class Optimise(StrEnum):
    """What a build is made for: long runs, or short runs, where the time to compile counts."""

    SPEED = "speed"
    BUILD = "build"


@dataclass(frozen=True, slots=True)
class Variant:
    """Which of the possible builds of one design is wanted."""

    optimise: Optimise = Optimise.SPEED
    waves: WaveFormat | None = None


_FAST = {Optimise.SPEED: ("-O3", "-march=native"), Optimise.BUILD: ("-Og",)}
_SPLIT = {Optimise.SPEED: (), Optimise.BUILD: ("--output-split-cfuncs", "2000")}  # long functions take long
_SLOW = ("-O0",)  # construction and initial values: run once
_COMMON = (
    "-std=gnu++20",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-gnu-unique",
    "-w",
    "-DVERILATOR=1",
    "-DVM_COVERAGE=0",
    "-DVM_SC=0",
    "-DVM_TIMING=0",
)
_VERILATOR = (
    "--cc",
    "--no-timing",
    "-O3",
    "--x-assign",
    "fast",
    "--x-initial",
    "0",
    "-Wno-fatal",
    "-Wno-lint",
    "--output-split",
    "20000",
    "--prefix",
    "Vtop",
    "--Mdir",
    "model",
)
PROGRAM = "program"
_RUNTIME = ("verilated", "verilated_threads")
_TRACE_RUNTIME = {None: (), WaveFormat.VCD: ("verilated_vcd_c",), WaveFormat.FST: ("verilated_fst_c",)}
_TRACE_OPTIONS = {None: (), WaveFormat.VCD: ("--trace-vcd",), WaveFormat.FST: ("--trace-fst",)}
_SHIM = ("shim.cpp", "memory.hpp", "recorder.hpp", "sdram.hpp")
_COMPRESSION = HERE / "compression"
"""Headers in place of the headers of lz4 and zlib, which the writer of FST files would need."""


def build_library(config: AcceleratorConfig, design: Design, variant: Variant) -> Path:
    """Return the shared library that simulates `design`, building it when the cache does not hold it.

    Raises:
        ToolError: a tool is missing or fails.
    """
    sources = verilog_files(config, design)
    shim = [(HERE / name).read_bytes() for name in _SHIM]
    key = digest_of(
        [
            *(without_comments(file.read_text()) for file in sources),
            *shim,
            repr(_defines(config, variant)),
            _toolchain(variant),
        ]
    )
    return built("rtl", key, lambda folder: _build(folder, sources, config, variant)) / "model.so"


def _toolchain(variant: Variant) -> str:
    command = tuple(compiler())
    flags = (_FAST, _SLOW, _COMMON, _VERILATOR, _SPLIT, variant)
    return repr((verilator_version(), compiler_version(command), processor(), flags))


def _runtime_key(variant: Variant) -> str:
    """Return the key of what `_build_runtime` makes, which is the same for both ways to optimise."""
    command = tuple(compiler())
    compression = [header.read_bytes() for header in sorted(_COMPRESSION.iterdir())]
    tools = (verilator_version(), compiler_version(command), processor(), _COMMON, variant.waves)
    return digest_of([repr(tools), *compression])


def _defines(config: AcceleratorConfig, variant: Variant) -> list[str]:
    return [
        f"-DBUS_BYTES={config.bus_bytes}",
        f"-DBURST_BYTES={config.burst_bytes}",
        *_trace_defines(variant),
    ]


def _trace_defines(variant: Variant) -> list[str]:
    vcd, fst = (variant.waves is format for format in (WaveFormat.VCD, WaveFormat.FST))
    return [
        f"-DTRACE={vcd + 2 * fst}",
        f"-DVM_TRACE={vcd or fst:d}",
        f"-DVM_TRACE_VCD={vcd:d}",
        f"-DVM_TRACE_FST={fst:d}",
    ]


@dataclass(frozen=True, slots=True)
class _Job:
    """Sources that are compiled together, as one unit, with `flags`."""

    name: str
    sources: Sequence[Path]
    flags: Sequence[str]

    def run(self, folder: Path, children: Children) -> Path:
        """Compile in `folder` as one of `children`, and return the object file."""
        unit = folder / f"{self.name}.unit.cpp"
        unit.write_text("".join(f'#include "{_shortest(source, folder)}"\n' for source in self.sources))
        target = folder / f"{self.name}.o"
        run_tool(
            [*compiler(), *_COMMON, *self.flags, "-c", unit.name, "-o", target.name], folder, None, children
        )
        return target


def _shortest(source: Path, folder: Path) -> Path:
    """Return `source` as seen from `folder`, where it lies inside: ccache then finds it from any other folder
    too."""
    return source.relative_to(folder) if source.is_relative_to(folder) else source


def build_program(sources: Sequence[Path], top: str, main: Path, folder: Path) -> None:
    """Make a program that simulates Verilog: the file PROGRAM in `folder`, and nothing else there.

    Args:
        sources: Verilog.
        top: module to simulate; C++ knows it as `Vtop`.
        main: the C++ file with `main`.
        folder: empty.

    Raises:
        ToolError: a tool is missing or fails.
    """
    objects = _objects(folder, sources, top, main, _trace_defines(Variant()), Variant())
    run_tool([*compiler(), "-o", PROGRAM, *objects, "-lpthread"], folder)
    _remove_all_but(folder, PROGRAM)


def toolchain_key() -> str:
    """Return what a program of `build_program` depends on beside its sources."""
    return _toolchain(Variant())


def _build(folder: Path, sources: Sequence[Path], config: AcceleratorConfig, variant: Variant) -> None:
    objects = _objects(folder, sources, WRAPPER_NAME, HERE / "shim.cpp", _defines(config, variant), variant)
    run_tool([*compiler(), "-shared", "-o", "model.so", *objects, "-lpthread"], folder)
    _remove_all_but(folder, "model.so")


def _objects(
    folder: Path, sources: Sequence[Path], top: str, harness: Path, defines: Sequence[str], variant: Variant
) -> list[Path]:
    """Compile the model of `sources`, the harness around it, and the part of Verilator that both need."""
    root = verilator_root()
    options = [*_VERILATOR, "--top-module", top, *_SPLIT[variant.optimise], *_TRACE_OPTIONS[variant.waves]]
    run_tool([root / "bin" / "verilator_bin", *options, *sources], folder, {"VERILATOR_ROOT": str(root)})
    objects = _compile(_model_jobs(folder, harness, [*_includes(), "-Imodel", *defines], variant), folder)
    runtime = built("verilated", _runtime_key(variant), lambda place: _build_runtime(place, variant))
    return [*objects, *sorted(runtime.glob("*.o"))]


def _model_jobs(folder: Path, harness: Path, flags: Sequence[str], variant: Variant) -> list[_Job]:
    """Return what to compile: for speed, so that there is something to do for each processor.

    A quick build is a single unit. A second unit reads Verilator's headers again, which takes a quarter of
    the time of a small model, and tests keep the other processors busy with other builds.
    """
    fast, slow = [*flags, *_FAST[variant.optimise]], [*flags, *_SLOW]
    files = [*sorted((folder / "model").glob("*.cpp")), harness]
    apart = [file for file in files if "__Slow" in file.name and variant.optimise is Optimise.SPEED]
    count = (os.cpu_count() or 1) if variant.optimise is Optimise.SPEED else 1
    groups = _groups([file for file in files if file not in apart], count)
    jobs = [_Job(f"unit{index}", group, fast) for index, group in enumerate(groups)]
    return [*jobs, *([_Job("slow", apart, slow)] if apart else [])]


def _groups(files: Sequence[Path], count: int) -> list[list[Path]]:
    """Spread `files` over at most `count` groups of about the same number of bytes."""
    groups: list[list[Path]] = [[] for _ in range(count)]
    for file in sorted(files, key=lambda file: -file.stat().st_size):
        min(groups, key=lambda group: sum(member.stat().st_size for member in group)).append(file)
    return [group for group in groups if group]


def _includes() -> list[str]:
    include = verilator_root() / "include"
    return [f"-I{include}", f"-I{include / 'vltstd'}", f"-I{HERE}"]


def _build_runtime(folder: Path, variant: Variant) -> None:
    """Compile the part of Verilator that every model needs."""
    include = verilator_root() / "include"
    names = [*_RUNTIME, *_TRACE_RUNTIME[variant.waves]]
    flags = [f"-I{_COMPRESSION}", *_includes(), *_trace_defines(variant), "-O2"]
    _compile([_Job(name, [include / f"{name}.cpp"], flags) for name in names], folder)
    _remove_all_but(folder, "*.o")


def _compile(jobs: Sequence[_Job], folder: Path) -> list[Path]:
    """Compile all jobs at once; where one fails or the build is interrupted, the others end."""
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool, Children() as children:
        try:
            return list(pool.map(lambda job: job.run(folder, children), jobs))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _remove_all_but(folder: Path, pattern: str) -> None:
    for path in folder.iterdir():
        if not path.match(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
