"""Tokens: who may use a server. Each line of a file is a token, NAME:SECRET; a client's file has one line."""

import hashlib
import hmac
from collections.abc import Iterable
from pathlib import Path

from vdla.hw.spec.errors import DeviceError
from vdla.hw.spec.limits import read_at_most

FILE_BYTES = 1 << 20
LEAST_CHARACTERS = 24
OTHERS = 0o077  # permission bits of everybody but the owner
MAKE_ONE = "python -c \"import secrets; print('NAME:' + secrets.token_urlsafe(32))\" makes a line"


class Tokens:
    """The tokens that a server accepts.

    Args:
        lines: of the file.

    Raises:
        DeviceError: a line is no token, or there are none.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._names = {_digest(line): line.partition(":")[0] for line in lines}

    def __len__(self) -> int:
        return len(self._names)

    def name_of(self, token: str) -> str | None:
        """Return whose token it is; None: nobody's. The time does not depend on how much of it is right."""
        given, owner = _digest(token), None
        for digest, name in self._names.items():
            if hmac.compare_digest(digest, given):
                owner = name
        return owner


def read_tokens(path: Path) -> tuple[str, ...]:
    """Return the tokens in a file.

    Raises:
        DeviceError: others may read it, or a line is no token, or it holds none.
        OSError: it cannot be read.
    """
    if mode := path.stat().st_mode & OTHERS:
        raise DeviceError(f"{path} has tokens, and others may use it (mode {mode:03o}); chmod 600 {path}")
    text = read_at_most(path, FILE_BYTES, DeviceError).decode("ascii", "replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        _check(line, f"{path}, token {number}")
    names = [line.partition(":")[0] for line in lines]
    if not lines or len(set(names)) < len(names):
        reason = "has no token" if not lines else "has two tokens of one name"
        raise DeviceError(f"{path} {reason}; it takes one line NAME:SECRET for each client, and {MAKE_ONE}")
    return tuple(lines)


def _check(line: str, subject: str) -> None:
    """Refuse what is no token, without showing it."""
    name, _, secret = line.partition(":")
    if not name.isprintable() or not name or len(secret) < LEAST_CHARACTERS or not line.isascii():
        raise DeviceError(
            f"{subject} is not NAME:SECRET, in ASCII, with at least {LEAST_CHARACTERS} characters of secret; "
            f"{MAKE_ONE}"
        )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
