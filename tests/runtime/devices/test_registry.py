"""Devices by name, and what they need."""

import importlib.util

import pytest

from vdla.hw.spec.errors import ConfigError, DeviceError, ToolError
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import MemoryParameters, Target
from vdla.runtime.device import DeviceLostError
from vdla.runtime.devices.registry import DEVICE_CLASSES, device_of, require_device
from vdla.runtime.devices.rtl import tools


def missing() -> str:
    raise ToolError("planted")


@pytest.mark.parametrize("need", ["compiler", "verilator_root"])
def test_the_rtl_device_is_refused_where_a_tool_is_missing(monkeypatch, need):
    monkeypatch.setattr(tools, "compiler", lambda: "g++")
    monkeypatch.setattr(tools, "verilator_root", lambda: "root")
    require_device("rtl")
    monkeypatch.setattr(tools, need, missing)
    with pytest.raises(ToolError, match="planted"):
        require_device("rtl")
    require_device("cycle")
    require_device("functional")


def test_an_unknown_name_is_refused_with_the_names_that_there_are():
    with pytest.raises(
        DeviceError, match=f"no device is called 'fpga'; there are {', '.join(DEVICE_CLASSES)}, board:sim"
    ):
        require_device("fpga")


@pytest.mark.parametrize("name", ["board", "board:"])
def test_a_board_has_to_be_named(name):
    with pytest.raises(DeviceError, match=f"device {name} does not say which board; name board:sim"):
        require_device(name)


def test_a_board_is_named_by_its_file(tmp_path):
    require_device("board:sim")
    with pytest.raises(ConfigError, match=r"none\.toml"):
        device_of(f"board:{tmp_path}/none.toml", Target(TINY), 4096)


@pytest.mark.parametrize("package", ["litex", "serial"])
def test_a_board_is_refused_where_a_package_is_missing(monkeypatch, package):
    find = importlib.util.find_spec
    monkeypatch.setattr("vdla.hw.spec.extras.find_spec", lambda name: None if name == package else find(name))
    with pytest.raises(ToolError, match=rf"a board needs {package}, .*vdla\[boards\]"):
        require_device("board:sim")


def test_an_address_names_a_remote_device():
    with pytest.raises(DeviceLostError, match=r"^remote://127\.0\.0\.1:9/rtl: the server cannot be reached"):
        device_of("remote://127.0.0.1:9/rtl?insecure", Target(TINY), 4096)
    with pytest.raises(DeviceError, match="is no address of a remote device"):
        require_device("remote://")


def test_timed_devices_stand_in_front_of_the_target_s_memory():
    target = Target(TINY, memory=MemoryParameters(latency=77))
    assert device_of("cycle", target, 4096).memory == target.memory
    assert device_of("functional", target, 4096).config == TINY
