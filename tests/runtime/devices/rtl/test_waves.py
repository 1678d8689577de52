"""Waveforms of the RTL device: the signals of each unit, the cycles that were asked for, and whole files."""

import random
import re
import shutil
import subprocess
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.programs.cases import CASES
from tests.runtime.devices.rtl.waveforms import lz4_block, read_fst, read_vcd
from vdla.hw.spec import isa
from vdla.hw.spec.errors import DeadlockError, DeviceError, OutputError
from vdla.hw.spec.presets import TINY
from vdla.runtime.devices.rtl import Optimise, RtlDevice, model, waves
from vdla.runtime.devices.rtl.waves import Waves

CORE = "TOP.device_top.core"
UNITS = (
    *(f"datapath.{unit}" for unit in ("fetch", "dispatch", "dma", "load_unit", "compute_unit", "store_unit")),
    *(f"datapath.{memory}_scratchpad" for memory in ("uop", "inp", "wgt", "acc")),
    "control",
    "registers",
)
READERS = {".vcd": read_vcd, ".fst": read_fst}


def device(path: Path, first: int = 0, last: int | None = None) -> RtlDevice:
    return RtlDevice(TINY, 1 << 18, waves=Waves(path, first, last), optimise=Optimise.BUILD)


@pytest.mark.parametrize("ending", READERS)
def test_signals_of_each_unit_and_only_the_asked_cycles_are_there(tmp_path, ending):
    recording = device(tmp_path / f"run{ending}", 20, 60)
    assert recording.execute(CASES["gemm"]).cycles > 60
    waveform = READERS[ending](tmp_path / f"run{ending}")
    assert waveform.cycles == (20, 60)
    for unit in UNITS:
        assert any(name.startswith(f"{CORE}.{unit}.") for name in waveform.signals), unit
    assert f"{CORE}.datapath.fetch.request__payload.address" in waveform.signals
    assert not [name for name in waveform.signals if re.search(r"\.\$\d+$", name)]
    assert recording.waveforms == [tmp_path / f"run{ending}"]


def test_cycle_0_is_that_of_the_start_and_the_last_shows_done(tmp_path):
    recording = device(tmp_path / "run.vcd")
    cycles = recording.execute(CASES["gemm"]).cycles
    waveform = read_vcd(tmp_path / "run.vcd")
    running = f"{CORE}.control.running"
    assert [waveform.value(running, cycle) for cycle in (0, 1, cycles - 1, cycles)] == [1, 1, 1, 0]
    clock = [time for time, value in waveform.changes["TOP.clk"] if value == "1"]
    assert clock == [10 * cycle for cycle in range(waveform.cycles[1] + 1)]


@pytest.mark.parametrize("ending", READERS)
def test_each_run_has_a_file_of_its_own(tmp_path, ending):
    recording = device(tmp_path / f"run{ending}", 5, 10)
    for _ in range(3):
        recording.execute(CASES["gemm"])
        recording.reset()
    files = [tmp_path / f"{name}{ending}" for name in ("run", "run-2", "run-3")]
    assert recording.waveforms == files
    assert {READERS[ending](path).cycles for path in files} == {(5, 10)}
    assert sorted(tmp_path.iterdir()) == sorted(files)


def test_a_run_that_fails_leaves_its_waveform(tmp_path):
    recording = device(tmp_path / "run.vcd")
    with pytest.raises(DeadlockError):
        recording.execute([isa.Gemm(uop_end=1, iter_out=1, iter_in=1, reset=1, pop_prev=1), isa.Finish()])
    assert read_vcd(tmp_path / "run.vcd").cycles[1] > 16


def test_an_interrupted_run_leaves_no_file(tmp_path, monkeypatch):
    recording = device(tmp_path / "new" / "run.vcd")

    def interrupted(self, *arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(RtlDevice, "_step_until_done", interrupted)
        with pytest.raises(KeyboardInterrupt):
            recording.execute(CASES["gemm"])
    assert not (tmp_path / "new").exists()
    recording.execute(CASES["gemm"])
    assert recording.waveforms == [tmp_path / "new" / "run-2.vcd"]


def test_a_run_that_ends_before_the_first_cycle_has_no_file(tmp_path):
    recording = device(tmp_path / "run.vcd", 100_000)
    recording.execute(CASES["gemm"])
    assert recording.waveforms == []
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("path", "first", "last", "message"),
    [
        ("run.txt", 0, None, r"run.txt is no name of a waveform: it must end in \.vcd or \.fst"),
        ("run", 0, None, r"run is no name of a waveform"),
        ("run.vcd", 5, 4, "no cycles from 5 to 4 to record; give the first, from 0 on, and the last"),
        ("run.vcd", -1, None, "no cycles from -1 to None"),
    ],
)
def test_what_cannot_be_recorded_is_refused(path, first, last, message):
    with pytest.raises(OutputError, match=message):
        Waves(Path(path), first, last)


def test_a_waveform_that_cannot_be_written_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"file/run.vcd cannot be written: .*file is not a folder"):
        device(tmp_path / "file" / "run.vcd")


def test_a_full_disk_is_an_error_and_leaves_no_file(tmp_path, monkeypatch):
    recording = device(tmp_path / "run.vcd")
    record = model.Model.record
    full = Path("/dev/full")
    monkeypatch.setattr(
        model.Model, "record", lambda self, path, first, last: record(self, full, first, last)
    )
    with pytest.raises(DeviceError, match=r"cannot be written: No space left on device; record fewer cycles"):
        recording.execute(CASES["gemm"])
    assert not list(tmp_path.iterdir())


def test_an_fst_file_that_is_cut_off_is_noticed(tmp_path):
    recording = device(tmp_path / "run.fst", 5, 10)
    recording.execute(CASES["gemm"])
    waves._check_whole(tmp_path / "run.fst")
    data = (tmp_path / "run.fst").read_bytes()
    for size in (0, 5, len(data) // 2, len(data) - 1):
        (tmp_path / "cut.fst").write_bytes(data[:size])
        with pytest.raises(DeviceError, match=f"cut off after {size} bytes"):
            waves._check_whole(tmp_path / "cut.fst")


def blocks(*lengths: int) -> bytes:
    """Return blocks of an FST file that state their lengths, which count the eight bytes of the length too."""
    return b"".join(b"\3" + length.to_bytes(8, "big") + bytes(max(length, 8) - 8) for length in lengths)


@pytest.mark.parametrize(
    ("data", "is_whole"),
    [
        (blocks(8), True),
        (blocks(9, 8, 300), True),
        (blocks(0, 20), True),  # a length that was never written: the block is its head alone
        (b"", False),
        (b"\3", False),
        (blocks(9, 300)[:-1], False),
        (blocks(9, 300) + b"\3", False),
        (blocks(300)[:-10], False),
    ],
)
def test_an_fst_file_is_whole_where_its_last_block_ends_with_it(tmp_path, data, is_whole):
    (tmp_path / "run.fst").write_bytes(data)
    if is_whole:
        waves._check_whole(tmp_path / "run.fst")
    else:
        with pytest.raises(DeviceError, match=f"^the waveform .*: it is cut off after {len(data)} bytes; "):
            waves._check_whole(tmp_path / "run.fst")


@pytest.mark.parametrize(
    ("asked", "cycles"),
    [((), (0, (1 << 63) - 1)), ((7,), (7, (1 << 63) - 1)), ((7, 7), (7, 7)), ((0, 0), (0, 0))],
)
def test_the_model_is_asked_for_the_cycles_to_record(tmp_path, asked, cycles):
    seen = []
    silent = SimpleNamespace(record=lambda path, *given: seen.append(given), recorded=lambda: 0)
    with waves.Recording(Waves(tmp_path / "run.vcd", *asked)).of(silent):
        pass
    assert seen == [cycles]


HARNESS = """
#include <cstdio>
#include <iterator>
#include <vector>
#include "lz4.h"
#include "zlib.h"
int main(int, char** arguments) {
    std::vector<char> in;
    for (int byte; (byte = getchar()) != EOF;) in.push_back(static_cast<char>(byte));
    const bool lz4 = arguments[1][0] == 'l';
    std::vector<char> out(lz4 ? LZ4_compressBound(in.size()) : compressBound(in.size()));
    unsigned long size = out.size();
    if (lz4) size = LZ4_compress_default(in.data(), out.data(), in.size(), out.size());
    else compress2((Bytef*)out.data(), &size, (const Bytef*)in.data(), in.size(), 9);
    fwrite(out.data(), 1, size, stdout);
}
"""


@pytest.fixture(scope="module")
def compress(tmp_path_factory):
    """Return a function that compresses bytes as FST files are."""
    folder = tmp_path_factory.mktemp("compress")
    (folder / "c.cpp").write_text(HARNESS)
    headers = Path(waves.__file__).parent / "compression"
    command = [shutil.which("g++"), "-O1", "-fsanitize=address,undefined", f"-I{headers}", "c.cpp", "-o", "c"]
    subprocess.run(command, cwd=folder, check=True)

    def run(kind: str, data: bytes) -> bytes:
        return subprocess.run([folder / "c", kind], input=data, check=True, capture_output=True).stdout

    return run


RANDOM = random.Random(1)
SAMPLES = {
    "empty": b"",
    "short": b"abcabcabcabc",
    "zeros": bytes(200_000),
    "noise": RANDOM.randbytes(70_000),
    "words": b" ".join(RANDOM.choice((b"request", b"valid", b"ready", b"x")) for _ in range(20_000)),
    "far": RANDOM.randbytes(300) * 3 + bytes(65_600) + RANDOM.randbytes(300),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_compressed_reads_back(compress, name):
    data = SAMPLES[name]
    packed = compress("lz4", data)
    assert lz4_block(packed) == data
    assert zlib.decompress(compress("zlib", data)) == data
    if name in ("zeros", "words"):
        assert len(packed) < len(data) / 2
