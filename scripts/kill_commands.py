#!/usr/bin/env python3
"""Kill commands with SIGKILL, SIGINT and SIGTERM, and check what they leave.

Half of the kills come at a random moment, half as soon as the command has opened an output. Each output must
be absent, as it was before, or what an undisturbed run writes. A killed command may leave drafts of files and
scratch folders in the cache. The next run must delete them, must not wait for a lock, and must succeed. Exit
status 1 otherwise.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from vdla.hw.spec.children import python_command
from vdla.hw.spec.writing import DRAFT_NAME
from vdla.runtime.arrays import read_npz
from vdla.runtime.devices.rtl.cache import SCRATCH_PREFIX
from vdla.runtime.module.file import load

ROOT = Path(__file__).parents[1]
# of the smallest hardware, which is built quickly
VECTOR = ROOT / "tests" / "vectors" / "vta" / "gemm_vt2_b8.npz"
SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM)
BEFORE = b"here before\n"


@dataclass(frozen=True)
class Command:
    """A command line, in which {} stands for the folder to write into, and how its outputs are read to see
    that they are whole."""

    line: str
    readers: dict[str, Callable[[Path], object]]


COMMANDS = {
    "asm": Command("asm {0.parent}/stream.asm -o {0}/stream.bin", {"stream.bin": Path.read_bytes}),
    "compile": Command(
        f"compile {ROOT}/examples/digits/digits.onnx --calibrate {{0.parent}}/samples.npz -o {{0}}/net.vdla",
        {"net.vdla": load},
    ),
    "verilog": Command(
        "verilog --config tiny -o {0}",
        dict.fromkeys(("vdla_core.v", "vdla_core.toml", "vdla_core.md"), Path.read_text),
    ),
    "debug": Command(f"debug {VECTOR} -o {{0}}/debug.html", {"debug.html": Path.read_text}),
    "plot": Command(f"plot {VECTOR} -o {{0}}/plot.svg", {"plot.svg": Path.read_text}),
    "run": Command(
        "run {0.parent}/net.vdla --device cycle --output {0}/out.npz --trace {0}/trace.json",
        {"out.npz": read_npz, "trace.json": lambda path: json.loads(path.read_text())},
    ),
    "rtl": Command(f"replay {VECTOR} --device rtl", {}),
}


class Bench:
    """A command with what an undisturbed run of it writes, and how long that takes."""

    def __init__(self, command: Command, place: Path) -> None:
        self._command, self._place = command, place
        self._folder, self._cache = place / "out", place / "cache"
        self._environment = {
            **os.environ,
            "XDG_CACHE_HOME": str(self._cache),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "MPLCONFIGDIR": str(place / "matplotlib"),
        }  # its list of fonts takes long to make, and is no concern of ours
        self._environment.pop("VDLA_CACHE_DIR", None)
        self._prepare(before=False)
        self._finish(600)  # compiles what numba keeps
        self._prepare(before=False)
        self._seconds = self._finish(600)
        for name, reader in command.readers.items():
            reader(self._folder / name)
        self._whole = {name: (self._folder / name).read_bytes() for name in command.readers}

    def attempt(self, rng: random.Random, number: int) -> tuple[str, list[str]] | None:
        """Kill a run; return what became of the outputs, and what is wrong. None where it ended before."""
        self._prepare(before=number % 2 == 1)
        process = self._start()
        try:
            if self._whole and rng.random() < 0.5:
                self._wait_for_writing(process)
            else:
                time.sleep(rng.random() * self._seconds)
            if process.poll() is not None:
                self._seconds *= 0.9
                return None
            _send(SIGNALS[number % len(SIGNALS)], process)
            errors = process.communicate(timeout=60 + 10 * self._seconds)[1]
            state, problems = self._state()
            self._seconds = self._finish(60 + 10 * self._seconds)
            problems += [f"{path} is left after the next run" for path in self._strays()]
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
            return "stuck", [f"{error}: {(error.stderr or b'').decode()[-300:]}"]
        finally:
            _end(process)
        problems += [
            f"{name} is not whole after the next run"
            for name, data in self._whole.items()
            if self._found(name) != data
        ]
        return state + (" (traceback)" if b"Traceback" in errors else ""), problems

    def _prepare(self, before: bool) -> None:
        """Empty the cache; let the outputs have old contents, or none."""
        for folder in (self._folder, self._cache):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        for name in self._command.readers if before else ():
            (self._folder / name).write_bytes(BEFORE)

    def _line(self) -> list[str]:
        return [*python_command("vdla"), *self._command.line.format(self._folder).split()]

    def _start(self) -> subprocess.Popen:
        return subprocess.Popen(
            self._line(),
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def _wait_for_writing(self, process: subprocess.Popen) -> None:
        """Wait until a command has a file in the folder of its outputs open, or ends."""
        opened = Path(f"/proc/{process.pid}/fd")
        while process.poll() is None:
            with suppress(FileNotFoundError, PermissionError):  # closed, or ended, meanwhile
                if any(os.readlink(file).startswith(f"{self._folder}/") for file in opened.iterdir()):
                    return
            time.sleep(0.0002)

    def _finish(self, seconds: float) -> float:
        """Run the command undisturbed; return the seconds it took, which must not be more than `seconds`."""
        began = time.perf_counter()
        subprocess.run(self._line(), env=self._environment, capture_output=True, timeout=seconds, check=True)
        return time.perf_counter() - began

    def _found(self, name: str) -> bytes | None:
        path = self._folder / name
        return path.read_bytes() if path.exists() else None

    def _state(self) -> tuple[str, list[str]]:
        """Return in one word how the outputs are, and what is wrong with them."""
        words, problems = set(), []
        for name, whole in self._whole.items():
            data = self._found(name)
            words.add({None: "absent", BEFORE: "old", whole: "new"}.get(data, "broken"))
            if data not in (None, BEFORE, whole):
                problems.append(f"{name} is half-written: {len(data)} of {len(whole)} bytes")
        unknown = [
            path.name
            for path in self._folder.iterdir()
            if path.name not in self._whole and not DRAFT_NAME.fullmatch(path.name)
        ]
        problems += [f"{name} was not there before" for name in unknown]
        drafts = any(DRAFT_NAME.fullmatch(path.name) for path in self._folder.iterdir())
        return "+".join(sorted(words | ({"draft"} if drafts else set()))) or "-", problems

    def _strays(self) -> list[Path]:
        """Return drafts and scratch folders that are left."""
        folders = (self._folder, self._cache)
        return [
            path
            for folder in folders
            for path in folder.rglob(".*")
            if DRAFT_NAME.fullmatch(path.name) or path.name.startswith(SCRATCH_PREFIX)
        ]


def _send(number: signal.Signals, process: subprocess.Popen) -> None:
    """Send a signal to a command; as terminals do, SIGINT to the tools that it has started, too."""
    if number is signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)


def _end(process: subprocess.Popen) -> None:
    """End what a killed command has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # all have ended
    finally:
        process.wait()
        process.stderr.close()


def campaign(name: str, kills: int, seed: int, place: Path) -> tuple[Counter, list[str]]:
    """Kill a command again and again; return how often its outputs were in which state, and what was
    wrong."""
    write_inputs(place)
    bench, rng = Bench(COMMANDS[name], place), random.Random(f"{name} {seed}")
    states, problems = Counter(), []
    with click.progressbar(
        range(kills), label=name, file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as progress:
        for number in progress:
            while (result := bench.attempt(rng, number)) is None:
                pass  # it ended too early to be killed; the next run is killed sooner
            state, faults = result
            states[state] += 1
            problems += [
                f"{name}, kill {number} ({SIGNALS[number % len(SIGNALS)].name}): {problem}"
                for problem in faults
            ]
    return states, problems


def write_inputs(place: Path) -> None:
    """Write what the commands read: a stream as text, samples of digits, and the compiled network."""
    (place / "stream.asm").write_text("FINISH()\n" * 5000)
    np.savez(place / "samples.npz", image=np.random.default_rng(0).random((8, 1, 1, 8, 8), np.float32))
    line = [
        "compile",
        ROOT / "examples/digits/digits.onnx",
        "--calibrate",
        place / "samples.npz",
        "-o",
        place / "net.vdla",
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([*python_command("vdla"), *line], check=True, capture_output=True, env=environment)


@click.command(help=__doc__)
@click.option("--kills", default=20, show_default=True, help="Kills of each command.")
@click.option(
    "--only", type=click.Choice(list(COMMANDS)), multiple=True, help="Kill this command; may be repeated."
)
@click.option("--seed", default=0, show_default=True)
def main(kills: int, only: tuple[str, ...], seed: int) -> None:
    problems = []
    click.echo(f"{'command':8} {'kills':>5}  {'problems':>8}  outputs after the kill")
    for name in only or COMMANDS:
        with tempfile.TemporaryDirectory(prefix="kill.") as place:
            states, faults = campaign(name, kills, seed, Path(place))
        click.echo(
            f"{name:8} {kills:5}  {len(faults):8}  "
            f"{', '.join(f'{count} {state}' for state, count in sorted(states.items()))}"
        )
        problems += faults
    for problem in problems[:20]:
        click.echo(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
