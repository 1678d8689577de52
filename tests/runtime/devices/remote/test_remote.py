"""Remote devices: served correctly or refused, nothing hangs, and no client is disturbed."""

import os
import random
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from generators.programs import IMAGE_BYTES, Program, random_config, random_program

import vdla
from tests.compiler.network.compiled import handmade
from tests.compiler.network.graphs import random_inputs
from tests.programs.cases import CASES, OPERANDS, all_out, uops
from tests.programs.test_cases import CONFIG, program_of
from tests.programs.test_self_storing import SELF_STORING
from tests.runtime.devices.remote.serving import (
    SECONDS,
    Served,
    make_certificate,
    secure,
    secure_options,
    serving,
    token_file,
)
from vdla.api import Module
from vdla.hw.spec import children, isa
from vdla.hw.spec.errors import CycleLimitError, DeviceError, OverwriteError
from vdla.hw.spec.memory import REFERENCE_MEMORY, MemoryParameters
from vdla.hw.spec.presets import TINY
from vdla.hw.spec.target import Target
from vdla.runtime.device import Device, DeviceLostError
from vdla.runtime.devices.cycle import CycleDevice
from vdla.runtime.devices.functional import FunctionalDevice
from vdla.runtime.devices.registry import device_of
from vdla.runtime.devices.remote import messages
from vdla.runtime.devices.remote.address import address_of
from vdla.runtime.devices.remote.channel import Channel
from vdla.runtime.devices.remote.device import RemoteDevice
from vdla.sim.verify.verifier import VerificationError

DRAM_BYTES = 2 * IMAGE_BYTES
CLIENTS = 20
LIMITS = ("--message-bytes", "65536", "--run-seconds", "60", "--clients", str(2 * CLIENTS))
SAFE = program_of(CASES["finish alone"])
LONG = isa.Gemm(pop_prev=1, uop_end=2, iter_out=16_000, iter_in=16_000)
MANY = 2000  # such instructions take hours
HOG = """
import sys
from vdla.hw.spec.presets import TINY
from vdla.runtime.devices.remote.address import address_of
from vdla.runtime.devices.remote.device import RemoteDevice
from tests.runtime.devices.remote.test_remote import hog
device = RemoteDevice(TINY, 1 << 20, address=address_of(sys.argv[1]))
print("ready", flush=True)
hog().run_on(device)
"""


def hog() -> Program:
    """Return a safe program that takes longer than any test."""
    long = (LONG, *(replace(LONG, pop_prev=0),) * MANY)
    return program_of((*OPERANDS, CASES["load and store"][0], uops(4), *long, *all_out()))


def on_server(address: str, memory: MemoryParameters = REFERENCE_MEMORY, config=CONFIG) -> Device:
    device = device_of(address, Target(config, memory), DRAM_BYTES)
    assert isinstance(device, RemoteDevice)
    return device


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("served"), "--insecure", *LIMITS) as server:
        yield server


@pytest.fixture(scope="module")
def secured(tmp_path_factory) -> Iterator[tuple[Served, Path]]:
    """Return a server with TLS and tokens of two clients, and the folder of its files."""
    folder = tmp_path_factory.mktemp("secured")
    with serving(folder, *secure_options(folder, "alice", "bob")) as server:
        yield server, folder


# Results


@pytest.mark.parametrize("memory", [REFERENCE_MEMORY, MemoryParameters(13, 3, 2)])
@pytest.mark.parametrize("seed", range(4))
def test_cycles_counters_and_dram_are_those_of_the_local_device(served, seed, memory):
    program = random_program(random_config(seed), seed)
    local = CycleDevice(program.config, DRAM_BYTES, memory)
    local.verifies = True
    try:
        expected, image = program.run_on(local)
    except VerificationError as error:
        with pytest.raises(VerificationError, match=re.escape(str(error))):
            program.run_on(on_server(served.address(), memory, program.config))
        return
    result, remote_image = program.run_on(on_server(served.address(), memory, program.config))
    assert (result.cycles, result.counters) == (expected.cycles, expected.counters)
    np.testing.assert_array_equal(remote_image, image)


def test_the_client_names_the_device_and_the_first_is_the_default(served):
    assert SAFE.run_on(on_server(served.address(device="functional")))[0].cycles is None
    cycles = SAFE.run_on(CycleDevice(CONFIG, DRAM_BYTES))[0].cycles
    for name in ("", "cycle"):
        assert SAFE.run_on(on_server(served.address(device=name)))[0].cycles == cycles
    with pytest.raises(
        DeviceError, match=r"^the server offers no device 'rtl'; it offers cycle, functional$"
    ):
        on_server(served.address(device="rtl"))


def test_a_run_of_a_network_gives_outputs_and_layers_of_the_local_device(served):
    graph, plan = handmade("several ends")
    module, inputs = Module(plan), random_inputs(graph, 0)
    local, remote = (module.run(inputs, device) for device in ("cycle", served.address()))
    assert local.report.cycles == remote.report.cycles
    assert [layer.cycles for layer in local.report.layers] == [layer.cycles for layer in remote.report.layers]
    for name, values in local.outputs.items():
        assert values.tobytes() == remote.outputs[name].tobytes()


def test_large_copies_take_several_messages(served):
    device = on_server(served.address())
    values = np.random.default_rng(0).integers(0, 256, DRAM_BYTES, np.uint8)
    device.copy_in(0, values)
    np.testing.assert_array_equal(device.copy_out(0, DRAM_BYTES), values)
    device.copy_in(DRAM_BYTES - 3, b"abc")
    assert device.copy_out(DRAM_BYTES - 4, 4).tobytes() == values[-4:-3].tobytes() + b"abc"


def test_the_log_says_who_ran_what_and_how_long(secured):
    server, folder = secured
    SAFE.run_on(on_server(server.address(secure(folder, "alice"))))
    cycles = SAFE.run_on(CycleDevice(CONFIG, DRAM_BYTES))[0].cycles
    line = server.wait_for("alice  runs 1 instructions on cycle in ")
    assert re.search(rf"in \d+\.\d+ s after \d+\.\d+ s in the queue: {cycles} cycles\n", line)


# Refusals


def test_an_unverified_stream_is_refused_and_changes_nothing(served):
    device = on_server(served.address())
    program = program_of(CASES["load padded with a value"])
    before = np.append(program.image, np.frombuffer(program.stream, np.uint8))
    with pytest.raises(VerificationError, match=r"reads ACC element 15, which nothing has written$"):
        program.run_on(device)
    np.testing.assert_array_equal(device.copy_out(0, before.size), before)
    assert SAFE.run_on(device)[0].cycles


@pytest.mark.parametrize(("address", "count"), [(1, 1), (-16, 1), (0, -1), (0, 1 << 40), (1 << 70, 1)])
def test_a_stream_outside_dram_is_refused_as_by_the_local_device(served, address, count):
    with pytest.raises((DeviceError, OverflowError)) as local:
        FunctionalDevice(CONFIG, DRAM_BYTES).run(address, count)
    with pytest.raises((DeviceError, OverflowError)) as remote:
        on_server(served.address()).run(address, count)
    assert str(remote.value) == str(local.value) or address >= 1 << 63


def test_errors_keep_their_class_and_position(served):
    device = on_server(served.address())
    device.copy_in(0, SAFE.stream)
    with pytest.raises(CycleLimitError):
        device.run(0, 1, cycle_limit=1)
    program, message = SELF_STORING["itself"]
    with pytest.raises(OverwriteError, match=re.escape(message)) as caught:
        program.run_on(on_server(served.address(), config=TINY))
    assert caught.value.index is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("ca={ca}&token={wrong}", "the server does not know this token; put a line of the server's file"),
        ("ca={ca}", "the server wants a token; put a line"),
        ("ca={other}&token={alice}", "the server cannot be reached, or has ended (UNAVAILABLE"),
        ("insecure", "the server cannot be reached, or has ended (UNAVAILABLE"),
        ("token={alice}", "the server cannot be reached, or has ended (UNAVAILABLE"),
    ],
)
def test_a_client_without_the_right_token_and_tls_is_refused(secured, tmp_path, options, message):
    server, folder = secured
    files = {
        "ca": folder / "127.0.0.1.pem",
        "alice": token_file(folder, "alice"),
        "wrong": token_file(tmp_path, "mallory"),
        "other": make_certificate(tmp_path)[0],
    }
    with pytest.raises(DeviceError) as caught:
        on_server(server.address(options.format(**files)))
    assert str(caught.value).startswith(f"remote://127.0.0.1:{server.port}: {message}")
    assert "mallory-" not in server.log.read_text()


def test_a_certificate_for_another_address_is_refused(tmp_path):
    certificate, key = make_certificate(tmp_path, "10.1.2.3")
    tokens = token_file(tmp_path, "alice")
    with (
        serving(
            tmp_path, "--certificate", str(certificate), "--key", str(key), "--tokens", str(tokens)
        ) as server,
        pytest.raises(DeviceLostError, match="cannot be reached"),
    ):
        on_server(server.address(f"ca={certificate}&token={tokens}"))


def test_a_client_cannot_use_the_device_of_another(secured):
    server, folder = secured
    alice, bob = (Channel(address_of(server.address(secure(folder, name)))) for name in ("alice", "bob"))
    opened = alice.ask(messages.opening("", Target(CONFIG), 4096), SECONDS)
    for request in (messages.CopyOut(opened.session, 0, 1), messages.Close(opened.session)):
        with pytest.raises(DeviceLostError, match=r"^the server does not have this device"):
            bob.ask(request, SECONDS)
    assert alice.ask(messages.CopyOut(opened.session, 0, 1), SECONDS).data == b"\0"


def test_too_much_dram_is_refused_with_the_limit(served):
    with pytest.raises(
        DeviceError,
        match=r"^the server would have 1073741824 bytes of DRAM for this client, and the limit is 536870912; "
        "close a device, wait, or start the server with more --dram-bytes$",
    ):
        device_of(served.address(), Target(CONFIG), 1 << 30)


def test_an_oversized_module_is_refused_before_anything_is_copied(tmp_path):
    graph, plan = handmade("several ends")
    message = rf"have {plan.dram_bytes} bytes of DRAM .* limit is 5000"
    with (
        serving(tmp_path, "--insecure", "--dram-bytes", "5000") as server,
        pytest.raises(DeviceError, match=message),
    ):
        Module(plan).run(random_inputs(graph, 0), server.address())


def test_an_oversized_copy_or_message_is_refused(served):
    channel = Channel(address_of(served.address()))
    opened = channel.ask(messages.opening("", Target(CONFIG), 1 << 20), SECONDS)
    limit = 65536 - messages.HEAD_BYTES
    assert opened.copy_bytes == limit
    with pytest.raises(
        DeviceError, match=rf"^a copy of {limit + 1} bytes exceeds the limit of {limit}; copy it"
    ):
        channel.ask(messages.CopyOut(opened.session, 0, limit + 1), SECONDS)
    with pytest.raises(
        DeviceError, match=r"message larger than max \(\d+ vs\. 65536\); run again later, or copy"
    ):
        channel.ask(messages.CopyIn(opened.session, 0, bytes(65536)), SECONDS)
    assert channel.ask(messages.CopyOut(opened.session, 0, 1), SECONDS).data == b"\0"


def test_a_client_of_another_version_or_target_is_refused(served):
    channel = Channel(address_of(served.address()))
    request = messages.opening("", Target(CONFIG), 4096)
    for field, value, message in (
        ("version", 0, r"^the client's messages have version 0, the server's 1; install the same version"),
        ("digest", "0" * 64, r"^the configuration's digest is 0{12} at the client and "),
        ("config", {**request.config, "block_in": 3}, r"block_in = 3"),
        ("config", {**request.config, "more": 3}, r"parameter 'more' is unknown"),
    ):
        with pytest.raises(vdla.hw.spec.errors.VdlaError, match=message):
            channel.ask(messages.Open(**{**_fields(request), field: value}), SECONDS)


def _fields(message: messages.Message) -> dict[str, object]:
    return {name: getattr(message, name) for name in message.__struct_fields__}


def test_damaged_messages_are_refused_and_disturb_nobody(served):
    device, channel = on_server(served.address()), Channel(address_of(served.address()))
    opened = channel.ask(messages.opening("", Target(CONFIG), 4096), SECONDS)
    whole = messages.encoded(messages.Run(opened.session, 0, 1))
    rng, kinds = random.Random(1), set()
    for number in range(200):
        data = bytearray(whole if number % 4 else rng.randbytes(50))
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        reply = messages.decoded(
            channel._call(bytes(data[: rng.randint(0, len(data))]), timeout=SECONDS), messages.Reply
        )
        kinds.add(type(reply))
    assert kinds == {messages.Refusal}
    assert SAFE.run_on(device)[0].cycles


@pytest.mark.parametrize(
    "data", [b"", b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", bytes(10_000)]
)
def test_connections_that_are_no_clients_or_send_nothing_disturb_nobody(served, secured, data):
    server, folder = secured
    with (
        socket.create_connection(("127.0.0.1", served.port)) as plain,
        socket.create_connection(("127.0.0.1", server.port)) as encrypted,
    ):
        plain.sendall(data)
        encrypted.sendall(data)
        assert SAFE.run_on(on_server(served.address()))[0].cycles
        assert SAFE.run_on(on_server(server.address(secure(folder, "bob"))))[0].cycles


# Many clients


def test_20_clients_at_once_each_have_their_own_dram(served):
    programs = [program_of(CASES["load and store"]) for _ in range(CLIENTS)]
    for number, program in enumerate(programs):
        program.image[:] = np.random.default_rng(number).integers(0, 256, IMAGE_BYTES, np.uint8)
    barrier = threading.Barrier(CLIENTS)

    def client(program: Program) -> tuple[int | None, np.ndarray]:
        device = on_server(served.address())
        barrier.wait(SECONDS)
        result, image = [program.run_on(device) for _ in range(3)][-1]
        return result.cycles, image

    with ThreadPoolExecutor(CLIENTS) as threads:
        results = list(threads.map(client, programs))
    for program, (cycles, image) in zip(programs, results, strict=True):
        expected, local = program.run_on(CycleDevice(CONFIG, DRAM_BYTES))
        assert cycles == expected.cycles
        np.testing.assert_array_equal(image, local)


@pytest.fixture(scope="module")
def short(tmp_path_factory) -> Iterator[Served]:
    """Return a server whose runs may take a few seconds."""
    folder = tmp_path_factory.mktemp("short")
    with serving(folder, "--insecure", "--device", "functional", "--run-seconds", "60") as warm:
        SAFE.run_on(on_server(warm.address()))  # compiles whatever the cache does not hold
    with serving(folder, "--insecure", "--device", "functional", "--run-seconds", "8") as server:
        yield server


def test_a_run_ends_at_its_limit_and_those_behind_it_are_served(short):
    slow, quick = on_server(short.address(), config=TINY), on_server(short.address())
    with ThreadPoolExecutor(2) as threads:
        long = threads.submit(hog().run_on, slow)
        short.wait_for("opens")
        time.sleep(1)
        served = threads.submit(SAFE.run_on, quick)
        with pytest.raises(
            DeviceError, match=r"^the run took more than 8 seconds, which is the limit; run a smaller"
        ):
            long.result(SECONDS)
        assert served.result(SECONDS)[0].cycles is None
    assert SAFE.run_on(slow)[0].cycles is None


def client_process(address: str) -> "subprocess.Popen[bytes]":
    """Return a client in another process that has a device and is about to run for hours on it."""
    environment = {**os.environ, **children.import_path()}
    command = [*children.python_command("x")[:1], "-c", HOG, address]
    process = children.start(command, env=environment, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_client_that_stops_or_dies_does_not_block_others(short, number):
    process = client_process(short.address())
    try:
        time.sleep(1)
        process.send_signal(number)
        assert SAFE.run_on(on_server(short.address()))[0].cycles is None
        if number == signal.SIGKILL:
            short.wait_for("disconnects after ")
    finally:
        children.end(process)


# Ends


def within(seconds: float, work: Callable[[], bool]) -> bool:
    """Return whether something becomes true in time."""
    end = time.monotonic() + seconds
    while not work():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def test_a_killed_server_is_named_and_the_next_run_works(tmp_path):
    graph, plan = handmade("several ends")
    module, inputs = Module(plan), random_inputs(graph, 0)
    with serving(tmp_path, "--insecure") as server:
        before = module.run(inputs, server.address())
        device = on_server(server.address())
        server.process.kill()
        server.process.wait(SECONDS)
        message = (
            rf"^remote://127\.0\.0\.1:{server.port}: the server cannot be reached, or has ended \(UNAVAILABLE"
        )
        for work in (lambda: SAFE.run_on(device), lambda: module.run(inputs, server.address())):
            with pytest.raises(DeviceLostError, match=message):
                work()
        assert device.lost
        with serving(tmp_path, "--insecure", port=server.port) as again:
            assert module.run(inputs, again.address()).report.cycles == before.report.cycles
            with pytest.raises(
                DeviceLostError, match=r"the server (does not have this device|cannot be reached)"
            ):
                SAFE.run_on(device)


def test_an_idle_device_is_given_up_and_the_next_run_makes_a_new_one(tmp_path):
    graph, plan = handmade("several ends")
    module, inputs = Module(plan), random_inputs(graph, 0)
    with serving(tmp_path, "--insecure", "--idle-seconds", "1") as server:
        first = module.run(inputs, server.address())
        server.wait_for("is given up: no request for some time")
        assert module.run(inputs, server.address()).report.cycles == first.report.cycles


def test_a_device_is_given_back_when_it_is_no_longer_used(tmp_path):
    with serving(tmp_path, "--insecure", "--clients", "1") as server:
        for _ in range(3):
            SAFE.run_on(on_server(server.address()))
        device = on_server(server.address())
        device.close()
        with pytest.raises(DeviceLostError, match="the connection is closed"):
            SAFE.run_on(device)
        on_server(server.address())


def test_ctrl_c_ends_server_and_runs_cleanly(tmp_path):
    with serving(tmp_path, "--insecure", "--device", "functional") as server:
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(hog().run_on, on_server(server.address(), config=TINY))
            server.wait_for("opens")
            time.sleep(1)
            runners = subprocess.run(
                ["ps", "--ppid", str(server.process.pid), "-o", "pid="],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.split()
            assert server.interrupt() == 0
            with pytest.raises(DeviceLostError, match="the server cannot be reached, or has ended"):
                running.result(SECONDS)
        log = server.log.read_text()
        assert "  ended\n" in log
        assert "Traceback" not in log
        assert runners
        assert within(10, lambda: not any(Path("/proc", pid).exists() for pid in runners))
