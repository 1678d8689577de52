"""``vdla serve``, and commands that run on its devices."""

import re

import numpy as np
import pytest

from tests.cli.commands import done, invoke, refused
from tests.cli.models import model
from tests.cli.test_extras import ROOT, VECTOR
from tests.runtime.devices.remote.serving import make_certificate, secure, secure_options, serving, token_file

DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
WITH_TLS = (
    "--certificate, --key and --tokens are needed; docs/remote.md shows how to make them. --insecure serves"
)


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    """Return the address of a server with TLS and tokens."""
    folder = tmp_path_factory.mktemp("serve")
    with serving(folder, *secure_options(folder, "alice")) as server:
        yield server.address(secure(folder, "alice"))


def test_run_prints_the_cycles_and_outputs_of_the_local_device(address, tmp_path):
    samples, module = tmp_path / "samples.npz", tmp_path / "digits.vdla"
    np.savez(samples, image=np.random.default_rng(0).normal(size=(4, 1, 1, 8, 8)).astype(np.float32))
    done("compile", DIGITS, "--calibrate", samples, "--config", "tiny", "-o", module)
    shown = []
    for number, device in enumerate(("cycle", address)):
        output = tmp_path / f"{number}.npz"
        text = done("run", module, "--device", device, "--output", output).stdout
        shown.append(re.search(r"accelerator .* cycles = .*", text).group())
    assert shown[0] == shown[1]
    assert (tmp_path / "0.npz").read_bytes() == (tmp_path / "1.npz").read_bytes()


def test_replay_compares_the_dram_of_a_remote_device(address):
    rows = done("replay", VECTOR, "--device", "cycle", "--device", address).stdout.splitlines()
    cycles = [row.split()[3] for row in rows[1:3]]
    assert cycles[0] == cycles[1]
    assert rows[3] == "2 of 2 match"


def test_the_environment_names_ca_and_token(address, monkeypatch):
    plain, _, query = address.partition("?")
    assert (
        "wants a token" in invoke("replay", VECTOR, "--device", f"{plain}?{query.partition('&')[0]}").stdout
    )
    for pair in query.split("&"):
        key, _, value = pair.partition("=")
        monkeypatch.setenv(f"VDLA_REMOTE_{key.upper()}", value)
    assert "1 of 1 match" in done("replay", VECTOR, "--device", plain).stdout


@pytest.mark.parametrize(
    ("device", "message"),
    [
        (
            "remote://127.0.0.1:9?insecure",
            "remote://127.0.0.1:9: the server cannot be reached, or has ended (",
        ),
        (
            "remote://127.0.0.1",
            "device 'remote://127.0.0.1' is no address of a remote device; write remote://",
        ),
        (
            "remote://127.0.0.1:9?token=/none",
            "/none cannot be read: No such file or directory; VDLA_REMOTE_CA",
        ),
    ],
)
def test_a_server_that_is_not_there_is_one_line(tmp_path, device, message):
    (tmp_path / "net.onnx").write_bytes(model().SerializeToString())
    result = invoke("run", tmp_path / "net.onnx", "--config", "tiny", "--device", device)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1].startswith(f"error: {message}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), WITH_TLS),
        (("--certificate", "{certificate}", "--key", "{key}"), WITH_TLS),
        (
            ("--insecure", "--tokens", "{tokens}"),
            "--insecure has no TLS and no tokens; leave out --certificate",
        ),
    ],
)
def test_tls_and_tokens_go_together(tmp_path, options, message):
    certificate, key = make_certificate(tmp_path)
    files = {"certificate": certificate, "key": key, "tokens": token_file(tmp_path, "alice")}
    result = invoke("serve", *(option.format(**files) for option in options))
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--insecure", "--listen", "0.0.0.0:0"),
            "--insecure serves loopback addresses alone, and 0.0.0.0:0 is none",
        ),
        (
            ("--insecure", "--listen", "8510"),
            "--listen 8510 is no HOST:PORT with a port in 0..65535, such as ",
        ),
        (
            ("--insecure", "--listen", "127.0.0.1:65536"),
            "--listen 127.0.0.1:65536 is no HOST:PORT with a port in",
        ),
    ],
)
def test_an_address_that_cannot_be_served_is_one_line(options, message):
    assert refused("serve", *options).startswith(message)


def test_an_address_in_use_is_one_line(tmp_path):
    with serving(tmp_path, "--insecure") as server:
        message = refused("serve", "--insecure", "--listen", f"127.0.0.1:{server.port}")
    assert message.startswith(
        f"127.0.0.1:{server.port} cannot be served: the address is not of this machine or in use"
    )


def test_files_that_are_no_certificate_are_one_line(tmp_path):
    certificate, key = make_certificate(tmp_path)
    tokens = token_file(tmp_path, "alice")
    for pair in ((key, certificate), (tokens, key)):
        files = ("--certificate", pair[0], "--key", pair[1], "--tokens", tokens)
        assert "key and certificate do not belong together" in refused(
            "serve", "--listen", "127.0.0.1:0", *files
        )
