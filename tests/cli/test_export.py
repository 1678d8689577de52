"""`vdla export`: what it writes, prints and refuses."""

import subprocess

import pytest

from tests.cli.commands import done, invoke, refused
from tests.cli.networks import made_in
from tests.export.graphs import FLOAT_SOFTMAX, exported
from vdla.export.files import files_of
from vdla.runtime.module.file import load, save


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a module."""
    return made_in(tmp_path_factory.mktemp("export"))


def test_a_module_is_written_as_a_library_that_compiles(folder, tmp_path):
    printed = done("export", folder / "net.vdla", "--c", "-o", tmp_path / "c").stdout.splitlines()
    contents = files_of(load(folder / "net.vdla"), "net")
    assert printed == [str(tmp_path / "c" / name) for name in contents]
    assert {path.name: path.read_text() for path in (tmp_path / "c").iterdir()} == contents
    subprocess.run(["make", "-C", tmp_path / "c", "VDLA_BASE=0x43c00000"], check=True, capture_output=True)
    assert (tmp_path / "c" / "libnet.a").exists()


def test_the_same_module_gives_the_same_files(folder):
    plan = load(folder / "net.vdla")
    assert files_of(plan, "net") == files_of(load(folder / "net.vdla"), "net")


def test_the_address_of_the_registers_must_be_given(folder, tmp_path):
    done("export", folder / "net.vdla", "--c", "-o", tmp_path)
    failed = subprocess.run(["make", "-C", tmp_path], capture_output=True, text=True, check=False)
    assert failed.returncode
    assert "define VDLA_BASE as the address of the accelerator's registers" in failed.stderr


def test_the_name_is_that_of_the_module_file_or_given(folder, tmp_path):
    module = tmp_path / "My-Net.vdla"
    module.write_bytes((folder / "net.vdla").read_bytes())
    done("export", module, "--c", "-o", tmp_path / "c")
    assert (tmp_path / "c" / "my_net.h").exists()
    done("export", module, "--c", "-o", tmp_path / "d", "--name", "other")
    assert "int other_run(" in (tmp_path / "d" / "other.h").read_text()
    module = module.rename(tmp_path / "2.vdla")
    assert refused("export", module, "--c", "-o", tmp_path / "e").startswith(
        "the name '2' is no prefix of C identifiers; give --name with a lower-case letter, then "
    )


def test_the_form_must_be_given(folder, tmp_path):
    result = invoke("export", folder / "net.vdla", "-o", tmp_path / "c")
    assert result.exit_code == 2
    assert "Missing option '--c'" in result.stderr
    assert not (tmp_path / "c").exists()


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(folder, tmp_path):
    (tmp_path / "file").write_text("")
    text = refused("export", folder / "net.vdla", "--c", "-o", tmp_path / "file" / "c")
    assert "cannot be written" in text


def test_a_file_that_is_no_module_is_refused(tmp_path):
    (tmp_path / "net.vdla").write_bytes(b"VDLA-MOD")
    assert "is truncated" in refused("export", tmp_path / "net.vdla", "--c", "-o", tmp_path / "c")


def test_operators_that_are_not_exact_are_named(tmp_path):
    save(exported(FLOAT_SOFTMAX), tmp_path / "net.vdla")
    result = done("export", tmp_path / "net.vdla", "--c", "-o", tmp_path / "c")
    assert result.stderr == (
        "Softmax the Softmax: floats may differ from the floats of `vdla run` by 8 units in the last place\n"
    )
