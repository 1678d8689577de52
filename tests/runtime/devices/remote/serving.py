"""Servers in other processes, with certificates and tokens."""

import asyncio
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from os import environ
from pathlib import Path
from typing import Any, TypeVar

import pytest

from vdla.hw.spec import children

READY = re.compile(r"serving .* on (\S+):(\d+)\n")
SECONDS = 120.0  # a server starts in a few seconds, on a machine with other work in more
SECRET = "0123456789abcdef01234567"
Result = TypeVar("Result")


def awaited(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine to its end in a new thread: browsers of other tests leave an event loop in this thread."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, work).result()


@dataclass
class Served:
    """A server in another process.

    Attributes:
        process: of it.
        log: file of what it prints.
        port: that it serves.
    """

    process: "subprocess.Popen[bytes]"
    log: Path
    port: int

    def address(self, options: str = "insecure", device: str = "") -> str:
        """Return the address of a device of the server."""
        return f"remote://127.0.0.1:{self.port}/{device}?{options}"

    def interrupt(self) -> int:
        """End it as Ctrl-C does; return its exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(SECONDS)

    def wait_for(self, text: str) -> str:
        """Return its log, once that holds a text."""
        end = time.monotonic() + SECONDS
        while text not in self.log.read_text():
            assert time.monotonic() < end, f"{text!r} is not in {self.log.read_text()!r}"
            time.sleep(0.05)
        return self.log.read_text()


@contextmanager
def serving(folder: Path, *options: str, port: int = 0) -> Iterator[Served]:
    """Serve; the end of the context kills the server."""
    log = folder / f"{time.monotonic_ns()}.log"
    command = children.python_command("vdla", "serve", "--listen", f"127.0.0.1:{port}", *options)
    with log.open("wb") as file:
        process = children.start(
            command, env={**environ, **children.import_path()}, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        served = Served(process, log, 0)
        served.port = int(READY.search(served.wait_for(" on 127.0.0.1:")).group(2))
        yield served
    finally:
        children.end(process)


def make_certificate(folder: Path, name: str = "127.0.0.1") -> tuple[Path, Path]:
    """Return a self-signed certificate and its key, created as docs/remote.md says."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificates, and is not installed")
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    words = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=vdla "
        f"-addext subjectAltName=IP:{name} -keyout {key} -out {certificate}"
    )
    subprocess.run(words.split(), check=True, capture_output=True)
    return certificate, key


def token_file(folder: Path, *names: str) -> Path:
    """Return a file with the tokens of some clients."""
    path = folder / f"{'-'.join(names)}.token"
    path.touch(mode=0o600)
    path.write_text("".join(f"{name}:{name}-{SECRET}\n" for name in names))
    return path


def secure_options(folder: Path, *names: str) -> tuple[str, ...]:
    """Return the options of a server with TLS and tokens for some clients."""
    certificate, key = make_certificate(folder)
    tokens = token_file(folder, *names)
    return ("--certificate", str(certificate), "--key", str(key), "--tokens", str(tokens))


def secure(folder: Path, name: str) -> str:
    """Return the options in the address of a client of such a server."""
    return f"ca={folder / '127.0.0.1.pem'}&token={token_file(folder, name)}"
