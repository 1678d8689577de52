"""Commands read no more of a file than they can take."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import vdla
from tests.compiler.network.compiled import handmade
from vdla.cli import main
from vdla.hw.spec.assembly import LARGEST_TEXT_BYTES
from vdla.hw.spec.limits import STREAM_BYTES
from vdla.runtime.module.plan import ModuleError

FAR = 1 << 40
VECTOR = Path(__file__).parents[1] / "vectors" / "vta" / "padacc8_b8.npz"


def refused(*arguments: object) -> str:
    outcome = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert outcome.exit_code == 2, outcome.output
    assert outcome.stderr.count("\n") == 1
    return outcome.stderr


@pytest.mark.parametrize(
    ("name", "arguments", "limit"),
    [
        ("x.asm", ("asm", "FILE", "-o", "x.bin"), LARGEST_TEXT_BYTES),
        ("x.bin", ("disasm", "FILE"), STREAM_BYTES),
        ("x.npz", ("replay", "FILE"), 512 << 20),
        ("x.onnx", ("compile", "FILE", "-o", "x.vdla"), 512 << 20),
        ("x.vdla", ("inspect", "FILE"), 1 << 30),
    ],
)
def test_a_file_that_never_ends_is_not_read_to_its_end(name, arguments, limit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("vdla.hw.spec.limits.PIECE_BYTES", 1 << 24)
    with (tmp_path / name).open("wb") as file:
        file.truncate(FAR)
    message = refused(*(str(tmp_path / name) if word == "FILE" else word for word in arguments))
    assert (
        message
        == f"error: {tmp_path / name} has more than {limit} bytes, and no more are read of such a file\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_vector_of_very_many_instructions_is_not_printed(tmp_path, monkeypatch):
    monkeypatch.setattr("vdla.cli.disasm.STREAM_BYTES", 16)
    assert refused("disasm", VECTOR).startswith("error: disassembling: the stream has ")


def test_assembly_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "x.asm").write_bytes(b"\xff")
    assert "is not text" in refused("asm", tmp_path / "x.asm", "-o", tmp_path / "x.bin")


def test_a_network_whose_tensors_no_device_holds_is_refused_before_they_are_allocated():
    _, plan = handmade("split")
    module = vdla.Module(dataclasses.replace(plan, tensors={**plan.tensors, "more": FAR}))
    with pytest.raises(
        ModuleError, match=r"^net on a device: its DRAM takes \d+ bytes, and the limit is 1073741824; "
    ):
        module.run({name: np.zeros(value.shape, value.dtype) for name, value in plan.inputs.items()})
