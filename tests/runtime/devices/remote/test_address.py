"""Addresses of remote devices."""

from pathlib import Path

import pytest

from vdla.hw.spec.errors import DeviceError
from vdla.runtime.devices.remote.address import Address, address_of, is_loopback


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    for name in ("VDLA_REMOTE_CA", "VDLA_REMOTE_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("remote://a.example:1", Address("a.example", 1)),
        ("remote://10.0.0.1:65535/rtl", Address("10.0.0.1", 65535, "rtl")),
        ("remote://[::1]:8/?insecure", Address("::1", 8, insecure=True)),
        ("remote://h:1/cycle?ca=/a/b.pem&token=c", Address("h", 1, "cycle", Path("/a/b.pem"), Path("c"))),
    ],
)
def test_an_address_has_host_port_device_and_files(text, address):
    assert address_of(text) == address


def test_the_environment_names_files_that_an_address_leaves_out(monkeypatch):
    monkeypatch.setenv("VDLA_REMOTE_CA", "ca.pem")
    monkeypatch.setenv("VDLA_REMOTE_TOKEN", "me")
    assert address_of("remote://h:1?token=you") == Address("h", 1, "", Path("ca.pem"), Path("you"))
    assert address_of("remote://127.0.0.1:1?insecure") == Address("127.0.0.1", 1, insecure=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("remote://h", "is no address of a remote device; write remote://HOST:PORT, "),
        ("remote://:80", "is no address of a remote device"),
        ("remote://h:0", "is no address of a remote device"),
        ("remote://me@h:80", "is no address of a remote device"),
        ("remote://h:70000", "is no address: Port out of range 0-65535; write "),
        ("remote://h:80?key=x", "has the unknown option key; there are ca, token, insecure"),
        ("remote://10.0.0.1:80?insecure", "is insecure, which only loopback addresses may be"),
        ("remote://localhost.example:80?insecure", "is insecure, which only loopback addresses may be"),
    ],
)
def test_other_texts_are_refused_with_the_reason(text, message):
    with pytest.raises(DeviceError) as caught:
        address_of(text)
    assert str(caught.value).startswith(f"device {text!r} {message}")


def test_a_server_is_shown_without_files():
    assert str(address_of("remote://[::1]:8/rtl?token=secret")) == "remote://[::1]:8/rtl"


def test_loopback_is_told_by_the_address_alone():
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "127.9.9.9", "::1")))
    assert not any(map(is_loopback, ("", "0.0.0.0", "10.0.0.1", "::", "127.0.0.1.example")))
