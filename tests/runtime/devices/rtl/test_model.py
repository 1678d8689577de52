"""A compiled model gives its memory back, and only once."""

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
        self.made: list[str] = []

    def __getattr__(self, name: str):
        return self.setdefault(name, Function(self, name))


class Function(SimpleNamespace):
    """A function of the library."""

    def __init__(self, calls: Calls, name: str) -> None:
        super().__init__(calls=calls, name=name)

    def __call__(self, *arguments: object) -> int:
        self.calls.made.append(self.name)
        return 1


def test_a_model_is_destroyed_once(monkeypatch, tmp_path):
    calls = Calls()
    monkeypatch.setattr(model.ctypes, "CDLL", lambda path: calls)
    made = model.Model(tmp_path / "library.so", MemoryParameters())
    assert calls.made == ["model_create"]
    made.close()
    made.close()
    del made
    assert calls.made == ["model_create", "model_destroy"]


def test_a_model_that_nobody_holds_is_destroyed(monkeypatch, tmp_path):
    calls = Calls()
    monkeypatch.setattr(model.ctypes, "CDLL", lambda path: calls)
    made = model.Model(tmp_path / "library.so", MemoryParameters())
    del made
    assert calls.made == ["model_create", "model_destroy"]


def test_a_closed_model_takes_no_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(model.ctypes, "CDLL", lambda path: Calls())
    made = model.Model(tmp_path / "library.so", MemoryParameters())
    made.close()
    with pytest.raises(DeviceError, match="was closed; make a new one"):
        made.attach(np.zeros(8, np.uint8))
