"""One instruction of 2 * 10^12 steps: `vdla check` ends by itself, and every device stops soon after
Ctrl-C."""

import json
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from vdla.cli import INTERRUPTED
from vdla.hw.spec import codec, isa
from vdla.hw.spec.presets import VTA
from vdla.hw.spec.vocabulary import AluOpcode, MemoryType

VDLA = "from vdla.cli import main; main(prog_name='vdla')"
SECONDS = 20  # generous: it takes one, on a machine with nothing else to do
RUNS = {
    "functional": ("vdla.sim.native.build", "NativeCode", "run"),
    "cycle": ("vdla.sim.native.build", "NativeCode", "run"),
    "rtl": ("vdla.runtime.devices.rtl.device", "RtlDevice", "_step_until_done"),
}
ANNOUNCED = """
import importlib
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job starts with it ignored
module, owner, name = {run}
owner = getattr(importlib.import_module(module), owner)
original = getattr(owner, name)
def announcing(*arguments):
    print("running", flush=True)
    return original(*arguments)
setattr(owner, name, announcing)
"""
"""Says when the native code of a device is about to run: compiling it is over then."""

STOPPED = """
from amaranth.hdl import Fragment
get, calls = Fragment.get, []
def stopping(*arguments):
    calls.append(arguments)
    if len(calls) == 6:
        raise KeyboardInterrupt
    return get(*arguments)
Fragment.get = staticmethod(stopping)
"""
"""Interrupts Amaranth while it elaborates."""


@pytest.fixture
def giant(tmp_path):
    """Return a vector whose one ALU instruction makes as many steps as can be."""
    uops = VTA.depth(MemoryType.UOP)
    items = [
        isa.Load(memory_type=MemoryType.UOP, y_size=1, x_size=uops, x_stride=uops),
        isa.Load(memory_type=MemoryType.ACC, y_size=1, x_size=1),
        isa.Alu(alu_opcode=AluOpcode.ADD, use_imm=1, imm=1, uop_end=uops, iter_out=16383, iter_in=16383),
        isa.Finish(),
    ]
    meta = json.dumps({"name": "giant", "config": {}, "counters": {}})
    stream = np.frombuffer(codec.to_bytes(items, VTA), np.uint8).reshape(-1, 16)
    np.savez(
        tmp_path / "giant.npz",
        instructions=stream,
        segment_addresses=np.zeros(1, np.uint64),
        seg0_initial=np.zeros(4 * uops, np.uint8),
        meta=np.frombuffer(meta.encode(), np.uint8),
    )
    return tmp_path / "giant.npz"


def test_check_ends_by_itself(giant):
    command = [sys.executable, "-c", VDLA, "check", giant]
    subprocess.run(command, check=True, timeout=300)  # compiles
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (done.returncode, done.stdout, done.stderr) == (0, "giant: safe\n", "")
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 5


@pytest.mark.parametrize("device", RUNS)
def test_replay_stops_when_it_is_interrupted(device, giant):
    program = ANNOUNCED.format(run=RUNS[device]) + VDLA
    process = subprocess.Popen(
        [sys.executable, "-c", program, "replay", "--device", device, giant],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "running\n"
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=SECONDS)
    finally:
        process.kill()
    assert (process.returncode, output, errors) == (INTERRUPTED, "", "interrupted\n")


def test_an_interrupted_elaboration_leaves_no_warnings(tmp_path):
    command = [sys.executable, "-c", STOPPED + VDLA, "verilog", "--config", "tiny", "-o", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (INTERRUPTED, "interrupted\n")
