"""The pseudo-random words of roots are outputs of SipHash."""

import numpy as np
import pytest

from vdla.prove.elements import ELEMENT, PRIMES, RESIDUES
from vdla.prove.kernels import evaluate, name_rows
from vdla.prove.sets import Roots

MASK = (1 << 64) - 1


def siphash(key: bytes, message: bytes, rounds: int, final: int) -> tuple[int, int]:
    """Return SipHash with 128 bits of result, from its definition."""
    k0, k1 = (int.from_bytes(key[at : at + 8], "little") for at in (0, 8))
    v = [
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D ^ 0xEE,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    ]

    def left(x, by):
        return (x << by | x >> 64 - by) & MASK

    def turn(times):
        for _ in range(times):
            v[0] = v[0] + v[1] & MASK
            v[1] = left(v[1], 13) ^ v[0]
            v[0] = left(v[0], 32)
            v[2] = v[2] + v[3] & MASK
            v[3] = left(v[3], 16) ^ v[2]
            v[0] = v[0] + v[3] & MASK
            v[3] = left(v[3], 21) ^ v[0]
            v[2] = v[2] + v[1] & MASK
            v[1] = left(v[1], 17) ^ v[2]
            v[2] = left(v[2], 32)

    whole = message + bytes(7 - len(message) % 8) + bytes([len(message) % 256])
    for at in range(0, len(whole), 8):
        word = int.from_bytes(whole[at : at + 8], "little")
        v[3] ^= word
        turn(rounds)
        v[0] ^= word
    v[2] ^= 0xEE
    turn(final)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    turn(final)
    return first, v[0] ^ v[1] ^ v[2] ^ v[3]


def test_the_definition_gives_the_published_value():
    first, second = siphash(bytes(range(16)), b"", 2, 4)
    published = bytes.fromhex("a3817f04ba25a8e66df67214c7550293")
    assert first.to_bytes(8, "little") + second.to_bytes(8, "little") == published


def roots(count):
    rng = np.random.default_rng(1)
    elements = np.zeros(count, ELEMENT)
    for field in ("lo", "hi"):
        elements[field] = rng.integers(0, 1 << 64, count, np.uint64)
    elements["kind"] = rng.integers(1, 1 << 31, count)
    return elements


def test_residues_are_words_of_siphash():
    elements, key = roots(5), bytes(range(32))  # more than are looked at together
    keys, out = np.frombuffer(key, np.uint64).copy(), np.empty((RESIDUES, 5))
    names, bits = np.zeros((3, 2), np.uint64), np.zeros((4, 2), np.uint64)
    coefficients = np.array([[[0, 1, 0]] * RESIDUES, [[0, 0, 1]] * RESIDUES], np.int64)
    for function in (0, 1):
        elements["function"] = function
        evaluate(elements, keys, coefficients, names, bits, out)
        for place, element in enumerate(elements):
            message = b"".join(int(element[field]).to_bytes(8, "little") for field in ("kind", "lo", "hi"))
            pair = siphash(key[16 * function :][:16], message, 1, 3)
            words = [part for word in pair for part in (word & 0xFFFFFFFF, word >> 32)]
            expected = [word * prime >> 32 for word, prime in zip(words, PRIMES, strict=True)]
            assert [
                int(value) % prime for value, prime in zip(out[:, place], PRIMES, strict=True)
            ] == expected


@pytest.mark.parametrize("count", [1, 2, 40])
def test_names_of_rows_are_words_of_siphash(count):
    key = bytes(range(16))
    words = np.random.default_rng(count).integers(0, 1 << 64, (1, 50), np.uint64)
    result = np.zeros(1, ELEMENT)
    name_rows(words, np.array([count]), np.frombuffer(key, np.uint64).copy(), 7, result)
    message = words[0, :count].tobytes()
    assert (int(result["lo"][0]), int(result["hi"][0])) == siphash(key, message, 1, 3)
    assert result["kind"][0] == 7


def test_roots_are_numbered_in_order_of_appearance():
    numbered, elements = Roots(), roots(5000)
    elements["function"] = np.arange(5000)
    order = np.random.default_rng(2).integers(0, 5000, 20000)
    numbers = numbered.numbers(elements[order])
    firsts = {}
    expected = [firsts.setdefault(place, len(firsts) + 1) for place in order.tolist()]
    assert numbers.tolist() == expected
    assert (numbered.numbers(elements[order]) == numbers).all()
    codes = numbers << 32 | elements["function"][order]
    assert (numbered.elements(codes) == elements[order]).all()
