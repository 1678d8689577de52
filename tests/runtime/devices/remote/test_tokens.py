"""Files of tokens, and whose a token is."""

import pytest

from tests.runtime.devices.remote.serving import SECRET, token_file
from vdla.hw.spec.errors import DeviceError
from vdla.runtime.devices.remote.tokens import Tokens, read_tokens


def test_a_token_is_that_of_one_client(tmp_path):
    tokens = Tokens(read_tokens(token_file(tmp_path, "alice", "bob")))
    assert len(tokens) == 2
    assert tokens.name_of(f"alice:alice-{SECRET}") == "alice"
    assert tokens.name_of(f"bob:bob-{SECRET}") == "bob"
    for wrong in ("", "alice", "alice:", f"alice:bob-{SECRET}", f"alice:alice-{SECRET}x", f"alice-{SECRET}"):
        assert tokens.name_of(wrong) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no token"),
        ("\n \n", "has no token"),
        (f"a:{SECRET}\na:x{SECRET}", "has two tokens of one name"),
        (f"a:{SECRET}\nb:short", ", token 2 is not NAME:SECRET, in ASCII, with at least 24 characters"),
        (f":{SECRET}", ", token 1 is not NAME:SECRET"),
        (f"a\x1b:{SECRET}", ", token 1 is not NAME:SECRET"),
        (f"ä:{SECRET}", ", token 1 is not NAME:SECRET"),
        (SECRET, ", token 1 is not NAME:SECRET"),
    ],
)
def test_a_bad_file_is_refused_without_showing_secrets(tmp_path, text, message):
    path = tmp_path / "tokens"
    path.touch(0o600)
    path.write_text(text)
    with pytest.raises(DeviceError) as caught:
        read_tokens(path)
    assert str(caught.value).startswith(f"{path}{'' if message[0] == ',' else ' '}{message}")
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_may_use_is_refused(tmp_path, mode):
    path = token_file(tmp_path, "alice")
    path.chmod(mode)
    with pytest.raises(DeviceError, match=rf"others may use it \(mode 0{mode & 0o077:02o}\); chmod 600 "):
        read_tokens(path)
