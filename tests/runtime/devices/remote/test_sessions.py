"""Sessions: each has its own DRAM; limits refuse, and name what to do."""

from dataclasses import replace

import pytest

from vdla.hw.spec.errors import DeviceError
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.runtime.device import DeviceLostError
from vdla.runtime.devices.remote.messages import opening
from vdla.runtime.devices.remote.sessions import Limits, Session, Sessions

LIMITS = Limits(dram_bytes=10_000, devices_per_client=3, clients=2)
REQUEST = opening("cycle", Target(TINY), 3000)


def test_copies_reach_their_own_dram_alone():
    sessions = Sessions(LIMITS)
    (_, first), (_, second) = (sessions.open("a", "cycle", REQUEST) for _ in range(2))
    first.write(2990, b"0123456789")
    assert first.read(2989, 11) == b"\x000123456789"
    assert second.read(0, 3000) == bytes(3000)
    for reach in (lambda: first.write(2991, bytes(10)), lambda: first.read(0, 3001)):
        with pytest.raises(DeviceError, match=r"is outside the device's DRAM of 3000 bytes$"):
            reach()


@pytest.mark.parametrize(
    ("others", "client", "size", "message"),
    [
        (
            "aa",
            "a",
            4001,
            "10001 bytes of DRAM for this client, and the limit is 10000; close .* --dram-bytes",
        ),
        ("aaa", "a", 1, "4 devices of this client, and the limit is 3; .* --devices-per-client"),
        ("abb", "c", 1, "3 clients, and the limit is 2; .* --clients"),
        ("", "a", 0, "at least 1 byte of DRAM"),
    ],
)
def test_a_device_beyond_a_limit_is_refused(others, client, size, message):
    sessions = Sessions(LIMITS)
    for other in others:
        sessions.open(other, "cycle", REQUEST)
    with pytest.raises(DeviceError, match=message):
        sessions.open(client, "cycle", replace_bytes(size))


def replace_bytes(size: int):
    return opening("cycle", Target(TINY), size)


def test_memory_that_the_machine_does_not_have_is_refused(monkeypatch):
    def full(name: str) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("os.memfd_create", full)
    sessions = Sessions(LIMITS)
    with pytest.raises(
        DeviceError, match=r"no file for 3000 bytes of DRAM: Too many open files; run again later$"
    ):
        sessions.open("a", "cycle", REQUEST)
    monkeypatch.undo()
    sessions.open("a", "cycle", REQUEST)


def test_limits_count_what_is_open():
    sessions = Sessions(LIMITS)
    names = [sessions.open("a", "cycle", REQUEST)[0] for _ in range(3)]
    sessions.close(names[0])
    sessions.open("a", "cycle", replace_bytes(4000))
    sessions.open("b", "cycle", replace_bytes(10_000))
    for client in ("a", "b"):
        with pytest.raises(DeviceError, match="for this client"):
            sessions.open(client, "cycle", replace_bytes(1))
    with pytest.raises(DeviceLostError):
        sessions.find(names[0], "a")


def test_a_device_is_its_client_s_alone():
    sessions = Sessions(LIMITS)
    name, session = sessions.open("a", "cycle", REQUEST)
    assert sessions.find(name, "a") is session
    for wrong, client in ((name, "b"), (name[:-1], "a"), ("", "a")):
        with pytest.raises(DeviceLostError, match=r"^the server does not have this device"):
            sessions.find(wrong, client)


def test_without_tokens_each_device_is_a_client():
    sessions = Sessions(replace(LIMITS, devices_per_client=1))
    (first, first_session), (_, second_session) = (sessions.open(None, "cycle", REQUEST) for _ in range(2))
    assert first_session.client != second_session.client
    assert sessions.find(first, None) is first_session


def test_one_request_at_a_time_holds_a_device():
    session = Session("a", "cycle", REQUEST)
    with session.working():
        assert session.idle_seconds == 0
        with (
            pytest.raises(DeviceError, match=r"^the device is at work for another request"),
            session.working(),
        ):
            pass
    with session.working():
        pass


def test_idle_devices_are_given_up_but_not_those_at_work():
    sessions = Sessions(LIMITS)
    (idle, first), (kept, second) = (sessions.open("a", "cycle", REQUEST) for _ in range(2))
    with second.working():
        assert sessions.close_idle(0) == [first]
    assert sessions.find(kept, "a") is second
    with pytest.raises(DeviceLostError):
        sessions.find(idle, "a")
    assert sessions.close_idle(1000) == []
