"""docs/networks.md quotes the messages that the commands print."""

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from vdla.cli import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/networks.md").read_text()
QUOTED = dict(re.findall(r"^\| (\w+\.\w+) \| .* \| `(.+)` \|$", PAGE, re.MULTILINE))
INPUTS = {
    "shape.npz": {"image": np.zeros((1, 1, 9, 8), np.float32)},
    "values.npz": {"image": np.full((1, 1, 8, 8), np.nan, np.float32)},
    "name.npz": {"picture": np.zeros((1, 1, 8, 8), np.float32)},
}
BYTES = re.compile(r"\b\d{4,}\b")  # sizes of files


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return a folder with the page's files and the module digits.vdla."""
    directory = tmp_path_factory.mktemp("page")
    shutil.copy(ROOT / "examples/digits/digits.onnx", directory)
    np.savez(
        directory / "training.npz",
        image=np.random.default_rng(0).normal(size=(4, 1, 1, 8, 8)).astype(np.float32),
    )
    arguments = [
        "compile",
        directory / "digits.onnx",
        "--calibrate",
        directory / "training.npz",
        "--config",
        "tiny",
        "-o",
        directory / "digits.vdla",
    ]
    assert CliRunner().invoke(main, list(map(str, arguments))).exit_code == 0
    module = (directory / "digits.vdla").read_bytes()
    (directory / "empty.onnx").write_bytes(b"")
    (directory / "cut.vdla").write_bytes(module[:4000])
    (directory / "changed.vdla").write_bytes(module[:9000] + bytes([module[9000] ^ 1]) + module[9001:])
    for name, arrays in INPUTS.items():
        np.savez(directory / name, **arrays)
    return directory


def test_the_page_quotes_messages():
    assert len(QUOTED) == 7


@pytest.mark.parametrize("name", QUOTED)
def test_a_quoted_message_is_the_one_that_is_printed(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(folder)
    arguments = {
        ".onnx": ["compile", name, "-o", "out.vdla"],
        ".vdla": ["inspect", name],
        ".npz": ["run", "digits.vdla", "--input", name],
    }[Path(name).suffix]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert BYTES.sub("N", done.stderr) == f"error: {BYTES.sub('N', QUOTED[name])}\n"
