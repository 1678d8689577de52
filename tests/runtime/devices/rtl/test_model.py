"""A compiled model gives its memory back, and only once."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from vdla.hw.spec.errors import DeviceError
from vdla.hw.spec.target import MemoryParameters
from vdla.runtime.devices.rtl import model


class Calls(dict):
    """The functions of a library, which note how often each is called."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __getattr__(self, name: str):
        return self.setdefault(name, Function(self, name))


class Function(SimpleNamespace):
    """A function of the library."""

    def __init__(self, calls: Calls, name: str) -> None:
        super().__init__(calls=calls, name=name)

    def __call__(self, *arguments: object) -> int:
        self.calls.names.append(self.name)
        return 1


def test_a_model_is_destroyed_once(monkeypatch, tmp_path):
    calls = Calls()
    monkeypatch.setattr(model.ctypes, "CDLL", lambda path: calls)
    rtl_model = model.Model(tmp_path / "library.so", MemoryParameters())
    assert calls.names == ["model_create"]
    rtl_model.close()
    rtl_model.close()
    del rtl_model
    assert calls.names == ["model_create", "model_destroy"]


def test_a_model_that_nobody_holds_is_destroyed(monkeypatch, tmp_path):
    calls = Calls()
    monkeypatch.setattr(model.ctypes, "CDLL", lambda path: calls)
    rtl_model = model.Model(tmp_path / "library.so", MemoryParameters())
    del rtl_model
    assert calls.names == ["model_create", "model_destroy"]


def test_a_closed_model_takes_no_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(model.ctypes, "CDLL", lambda path: Calls())
    rtl_model = model.Model(tmp_path / "library.so", MemoryParameters())
    rtl_model.close()
    with pytest.raises(DeviceError, match="was closed; make a new one"):
        rtl_model.attach(np.zeros(8, np.uint8))


class Asked(Calls):
    """The functions of a library, which note their arguments and give what they are told to."""

    def __init__(self, **given: int) -> None:
        super().__init__()
        self.asked: list[tuple[object, ...]] = []
        self.given = {"model_create": 77} | given

    def __getattr__(self, name: str):
        def call(*arguments: object) -> int:
            self.asked.append((name.removeprefix("model_"), *arguments))
            return self.given.get(name, 0)

        return self.setdefault(name, Named(call))


class Named:
    """A function that has types of its arguments and its result."""

    def __init__(self, call) -> None:
        self.call = call

    def __call__(self, *arguments: object) -> int:
        return self.call(*arguments)


def model_of(calls: Asked, monkeypatch) -> model.Model:
    monkeypatch.setattr(model.ctypes, "CDLL", lambda path: calls)
    return model.Model(Path("library.so"), MemoryParameters(latency=5, depth=6, cycles_per_beat=7))


def test_a_call_hands_over_the_model_and_its_arguments_in_order(monkeypatch):
    calls = Asked(model_write=9, model_read=8, model_poll=1, model_cycle=3, model_last_transfer=2)
    rtl_model, image = model_of(calls, monkeypatch), np.zeros(40, np.uint8)
    rtl_model.attach(image)
    rtl_model.reset()
    assert (rtl_model.read(4), rtl_model.read(4, 11), rtl_model.write(12, 13), rtl_model.poll(1, 2, 30)) == (
        8,
        8,
        9,
        True,
    )
    assert (rtl_model.cycle, rtl_model.last_transfer, rtl_model.protocol) == (3, 2, model.Protocol(0))
    assert calls.asked == [
        ("create", 5, 6, 7),
        ("attach", 77, image.ctypes.data, 40),
        ("reset", 77),
        ("read", 77, 4, 1),
        ("read", 77, 4, 11),
        ("write", 77, 12, 13),
        ("poll", 77, 1, 2, 30),
        ("cycle", 77),
        ("last_transfer", 77),
        ("protocol", 77),
    ]


def test_functions_have_as_many_arguments_as_the_shim_declares(monkeypatch):
    calls = Asked()
    model_of(calls, monkeypatch)
    source = (Path(model.__file__).parent / "shim.cpp").read_text()
    declared = dict(re.findall(r"^EXPORT .*?(model_\w+)\(([^)]*)\)", source, re.MULTILINE))
    assert declared.keys() == calls.keys()
    for name, arguments in declared.items():
        assert len(calls[name].argtypes) == len(arguments.split(","))


@pytest.mark.parametrize(("cycles", "message"), [(0, None), (12, None), (-28, "No space left on device")])
def test_a_waveform_that_the_disk_does_not_take_is_told(cycles, message, monkeypatch):
    rtl_model = model_of(Asked(model_record=1, model_recorded=cycles), monkeypatch)
    rtl_model.record(Path("/a/b.vcd"), 3, 9)
    assert rtl_model._calls.asked[-1] == ("record", 77, b"/a/b.vcd", 3, 9)
    if message is None:
        assert rtl_model.recorded() == cycles
        return
    with pytest.raises(DeviceError) as caught:
        rtl_model.recorded()
    assert str(caught.value) == f"the waveform cannot be written: {message}; {model.ROOM}"


def test_a_waveform_that_cannot_be_opened_is_told(monkeypatch):
    rtl_model = model_of(Asked(model_record=0), monkeypatch)
    with pytest.raises(DeviceError) as caught:
        rtl_model.record(Path("/a/b.vcd"), 0, 1)
    assert str(caught.value) == "the waveform cannot be written to /a, the folder for temporary files"


def test_ways_to_break_the_contract_have_the_values_of_the_shim():
    source = (Path(model.__file__).parent / "memory.hpp").read_text()
    declared = {name: 1 << int(place) for name, place in re.findall(r"(\w+) = 1 << (\d+),", source)}
    assert declared == {bit.name: bit.value for bit in model.Protocol}
