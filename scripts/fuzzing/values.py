"""Values that programs forget about, and mutators of bytes, text and trees of JSON values."""

import copy
import json
import re
from collections.abc import Callable
from random import Random

INTEGERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    8,
    15,
    16,
    17,
    63,
    64,
    127,
    128,
    255,
    256,
    4095,
    4096,
    65_535,
    65_536,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    1 << 40,
    (1 << 63) - 1,
    1 << 63,
    -(1 << 31),
    -(1 << 63),
    1 << 64,
    10**30,
    10**400,
)
FLOATS = (0.0, -0.0, 0.5, 1e-30, 1e30, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "",
    "x",
    "none",
    "int8",
    "float64",
    "O",
    "a" * 5000,
    "a\nb",
    "\0",
    "\u202e",
    "é" * 50,
    "%s%n",
    "../x",
    "/",
    "\U0001f600",
)
TOKENS = (
    b"",
    b"\0",
    b"\n",
    b"\xff\xff\xff\xff",
    b"PK\x01\x02",
    b"9" * 5000,
    b"0x" + b"f" * 4000,
    b"(" * 3000,
    b"[" * 3000,
    b"-" * 3000,
    b"nan",
    b"1e999",
    b"\x93NUMPY",
    b'"',
    b"'''",
    b"#",
    b"=",
    b",",
    b"\xed\xa0\x80",
    b"**x",
    b"lambda: " * 2000,
    b"{" * 2000,
)


def some(rng: Random, depth: int = 2) -> object:
    """Return any JSON value."""
    kind = rng.randrange(8 if depth else 5)
    if kind < 2:
        return rng.choice(INTEGERS)
    if kind < 5:
        return rng.choice(((*FLOATS,), TEXTS, (None, True, False))[kind - 2])
    parts = [some(rng, depth - 1) for _ in range(rng.choice((0, 1, 2, 4, 40)))]
    if kind == 5:
        return parts
    if kind == 6:
        return {str(some(rng, 0))[:50]: part for part in parts}
    return f"@nested {rng.choice((10, 200, 3000))}@"


def text_of(value: object) -> bytes:
    """Return a tree as JSON, with "@nested N@" as N lists in each other, which `json` could not write."""
    return re.sub(
        r'"@nested (\d+)@"', lambda match: "[" * int(match[1]) + "]" * int(match[1]), json.dumps(value)
    ).encode()


def changed_bytes(data: bytes, rng: Random) -> bytes:
    """Return bytes with a few of them flipped, cut, repeated, moved, or replaced."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        begin = rng.randrange(len(changed) + 1)
        end = min(len(changed), begin + rng.choice((1, 1, 2, 4, 8, 64, 1024)))
        match rng.randrange(6):
            case 0 if begin < len(changed):
                changed[begin] ^= 1 << rng.randrange(8)
            case 1:
                del changed[begin:end]
            case 2:
                changed[begin:begin] = changed[begin:end] * rng.choice((1, 2, 50))
            case 3:
                changed[begin:end] = rng.choice(TOKENS)
            case 4:
                changed[begin:end] = rng.randbytes(end - begin)
            case 5 if rng.random() < 0.2:
                del changed[begin:]
    return bytes(changed)


def changed_tree(value: object, rng: Random) -> object:
    """Return a tree of JSON values with one to four places changed."""
    changed = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        changed = _changed_once(changed, rng)
    return changed


def _changed_once(root: object, rng: Random) -> object:
    places = list(_places(root))
    if not places:
        return some(rng)
    holder, key = rng.choice(places)
    _CHANGES[rng.randrange(len(_CHANGES))](holder, key, rng)
    return root


def _places(value: object, depth: int = 12):
    """Yield every list or object in a tree with each of its keys."""
    if not isinstance(value, (list, dict)) or not depth:
        return
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        yield from _places(value[key], depth - 1)


def _replace(holder, key, rng: Random) -> None:
    holder[key] = some(rng)


def _nudge(holder, key, rng: Random) -> None:
    """Change a value a little, so that its type stays."""
    match holder[key]:
        case bool(value):
            holder[key] = not value
        case int(value):
            holder[key] = rng.choice(
                (value + 1, value - 1, -value, value * 2, value // 2, rng.choice(INTEGERS))
            )
        case str(value):
            holder[key] = rng.choice((value + "x", value[:-1], value.upper(), rng.choice(TEXTS)))
        case list(value):
            holder[key] = rng.choice((value[:-1], value + value[-1:], value[::-1], [], value * 3))
        case float(value):
            holder[key] = rng.choice((-value, *FLOATS))


def _remove(holder, key, rng: Random) -> None:
    del holder[key]


def _swap(holder, key, rng: Random) -> None:
    """Let two places of one list or object change their values."""
    second = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    holder[key], holder[second] = holder[second], holder[key]


def _add(holder, key, rng: Random) -> None:
    if isinstance(holder, dict):
        holder[rng.choice(TEXTS)] = copy.deepcopy(holder[key])
    else:
        holder.insert(rng.randrange(len(holder) + 1), copy.deepcopy(holder[key]))


_CHANGES: tuple[Callable[[object, object, Random], None], ...] = (
    _replace,
    _nudge,
    _nudge,
    _nudge,
    _remove,
    _swap,
    _add,
)
