"""Inner loops over elements, which run as machine code (`vdla.sim.compiled`). Arrays are contiguous, and the
results are written into the last argument.

Pseudo-random words come from SipHash-1-3 with 128 bits of result, of a secret key.

Source: J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF", 2012.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.prove.elements import NO_ROOT, PRIMES, Elements, Floats
from vdla.prove.functions import IDENTITY, Numbers
from vdla.sim.compiled import part, whole

Words = NDArray[np.uint64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
State = tuple[np.uint64, np.uint64, np.uint64, np.uint64]
Pair = tuple[np.uint64, np.uint64]

P0, P1, P2, P3 = PRIMES
LOW = np.uint64((1 << 32) - 1)
R13, R16, R17, R21, R32 = (np.uint64(amount) for amount in (13, 16, 17, 21, 32))
L13, L16, L17, L21 = (np.uint64(64 - amount) for amount in (13, 16, 17, 21))
START_0, START_1 = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
START_2, START_3 = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)
FIRST_END, SECOND_END = np.uint64(0xEE), np.uint64(0xDD)
WIDE = np.uint64(0xEE)
L_LENGTH = np.uint64(59)  # the last word of a message holds its bytes modulo 256 in its highest byte
WORDS_OF_ROOT = 3
NO_MEMBER = (1 << 63) - 1
"""In place of the code of a member."""
MEMBER_BITS = 32
MEMBER_FUNCTION = (1 << MEMBER_BITS) - 1
"""The bits of a member's code that number its function; the bits above number its root."""
MIX_1, MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
MIX_3 = np.uint64(0xFF51AFD7ED558CCD)


@part
def begin(low: np.uint64, high: np.uint64) -> State:
    """Return the state of SipHash for a key."""
    return low ^ START_0, high ^ START_1 ^ WIDE, low ^ START_2, high ^ START_3


@part
def turn(a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64) -> State:
    """Return a state after one round."""
    a = a + b
    c = c + d
    b = (b << R13 | b >> L13) ^ a
    d = (d << R16 | d >> L16) ^ c
    a = (a << R32 | a >> R32) + d
    c = c + b
    d = (d << R21 | d >> L21) ^ a
    b = (b << R17 | b >> L17) ^ c
    return a, b, c << R32 | c >> R32, d


@part
def take(a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64, word: np.uint64) -> State:
    """Return a state that has taken up a word."""
    a, b, c, d = turn(a, b, c, d ^ word)
    return a ^ word, b, c, d


@part
def thrice(a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64) -> State:
    """Return a state after three rounds."""
    a, b, c, d = turn(a, b, c, d)
    a, b, c, d = turn(a, b, c, d)
    return turn(a, b, c, d)


@part
def end(a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64, words: int) -> Pair:
    """Return the 128 bits of a state that has taken up so many words."""
    a, b, c, d = take(a, b, c, d, np.uint64(words) << L_LENGTH)
    a, b, c, d = thrice(a, b, c ^ FIRST_END, d)
    first = a ^ b ^ c ^ d
    a, b, c, d = thrice(a, b ^ SECOND_END, c, d)
    return first, a ^ b ^ c ^ d


@part
def digest(kind: np.uint64, lo: np.uint64, hi: np.uint64, low: np.uint64, high: np.uint64) -> Pair:
    """Return 128 pseudo-random bits of a root, for a key."""
    a, b, c, d = begin(low, high)
    a, b, c, d = take(a, b, c, d, kind)
    a, b, c, d = take(a, b, c, d, lo)
    a, b, c, d = take(a, b, c, d, hi)
    return end(a, b, c, d, WORDS_OF_ROOT)


@part
def below(word: np.uint64, prime: int) -> Any:
    """Return a pseudo-random residue of the low 32 bits of a word; none has a probability above 1 / 2**30."""
    return np.int64((word & LOW) * np.uint64(prime) >> R32)


@part
def combined(coefficients: Integers, first: int, second: int, prime: int) -> Any:
    """Return coefficients[0] + coefficients[1] first + coefficients[2] second modulo a prime below 2**31."""
    sums = coefficients[1] * first + coefficients[2] * second + coefficients[0]
    return sums % prime


@part
def digest_roots(words: Words, low: np.uint64, high: np.uint64, bits: Words, first: int) -> None:
    """Write 128 pseudo-random bits of roots, for a key, into the rows `first` and `first + 1` of `bits`.

    Args:
        words: uint64[3, n], kind, lo and hi of each root. A loop over such rows takes several at a time.
        bits: uint64[4, n].
    """
    kinds, lows, highs = words[0], words[1], words[2]
    lefts, rights = bits[first], bits[first + 1]
    for place in range(words.shape[1]):
        left, right = digest(kinds[place], lows[place], highs[place], low, high)
        lefts[place] = left
        rights[place] = right


@part
def evaluate_one(
    function: int, bits: Words, at: int, coefficients: Integers, out: Floats, place: int
) -> None:
    """Write the residues of an element that has a root, of whose bits row `at` is a column."""
    left, right = bits[0, at], bits[1, at]
    g0, g1 = below(left, P0), below(left >> R32, P1)
    g2, g3 = below(right, P2), below(right >> R32, P3)
    if function != IDENTITY:
        row, left, right = coefficients[function], bits[2, at], bits[3, at]
        g0, g1 = combined(row[0], g0, below(left, P0), P0), combined(row[1], g1, below(left >> R32, P1), P1)
        g2, g3 = combined(row[2], g2, below(right, P2), P2), combined(row[3], g3, below(right >> R32, P3), P3)
    write_residues(g0, g1, g2, g3, out, place)


@part
def write_residues(first: int, second: int, third: int, fourth: int, out: Floats, place: int) -> None:
    """Write residues between 0 and the primes as residues between -p/2 and p/2."""
    out[0, place] = first - P0 * (first > P0 // 2)
    out[1, place] = second - P1 * (second > P1 // 2)
    out[2, place] = third - P2 * (third > P2 // 2)
    out[3, place] = fourth - P3 * (fourth > P3 // 2)


@whole
def evaluate(
    elements: Elements, keys: Words, coefficients: Integers, words: Words, bits: Words, out: Floats
) -> None:
    """Write the residues of elements.

    Args:
        elements: elements[n], each with a function.
        keys: uint64[4], two keys.
        coefficients: int64[functions, RESIDUES, 3]: value for the byte 0, coefficients of both pseudo-random
            residues of a root.
        words: uint64[3, m], which is overwritten: names of roots that are looked at together.
        bits: uint64[4, m], which is overwritten: their pseudo-random bits for both keys.
        out: float64[RESIDUES, n], between -p/2 and p/2.
    """
    together = words.shape[1]
    for piece in range((len(elements) + together - 1) // together):
        first = piece * together
        count = min(together, len(elements) - first)
        others = 0
        for at in range(count):
            element = elements[first + at]
            words[0, at] = np.uint64(element.kind)
            words[1, at], words[2, at] = element.lo, element.hi
            others += element.kind != NO_ROOT and element.function != IDENTITY
        digest_roots(words, keys[0], keys[1], bits, 0)
        if others:
            digest_roots(words, keys[2], keys[3], bits, 2)
        for at in range(count):
            element = elements[first + at]
            if element.kind != NO_ROOT:
                evaluate_one(element.function, bits, at, coefficients, out, first + at)
            else:
                row = coefficients[element.function]
                write_residues(row[0, 0], row[1, 0], row[2, 0], row[3, 0], out, first + at)


@whole
def look_at_functions(elements: Elements, least: Integers, greatest: Integers, out: Integers) -> None:
    """Write the greatest range and magnitude of the values of elements; -1 if one is undefined.

    Args:
        elements: elements[n].
        least, greatest: int64[functions], of their values.
        out: int64[2].
    """
    widest, largest = 0, 0
    for place in range(len(elements)):
        function = elements[place].function
        if function < 0:
            widest, largest = -1, -1
            break
        widest = max(widest, greatest[function] - least[function])
        largest = max(largest, -least[function], greatest[function])
    out[0], out[1] = widest, largest


@part
def exact(residue: float, bias: int, prime: int) -> np.uint64:
    """Return the residue of a whole number plus a bias, between 0 and the prime."""
    rest = (np.int64(residue) + bias) % prime
    return np.uint64(rest)


@whole
def name_sums(residues: Floats, columns: Integers, out: Elements) -> None:
    """Write the elements of requantised sums: their roots are named by the sums' residues and by their kind.

    Args:
        residues: float64[RESIDUES, n, channels, m].
        columns: int64[4, channels]: a number, a bias, added to the sums, the kind of the roots, `NO_ROOT` for
            constants, and the function of the roots.
        out: elements[n, channels, m].
    """
    for outer in range(out.shape[0]):
        for channel in range(out.shape[1]):
            bias, kind, function = columns[1, channel], columns[2, channel], columns[3, channel]
            for inner in range(out.shape[2]):
                lo = hi = np.uint64(0)
                if kind != NO_ROOT:
                    first = exact(residues[0, outer, channel, inner], bias, P0)
                    second = exact(residues[1, outer, channel, inner], bias, P1)
                    third = exact(residues[2, outer, channel, inner], bias, P2)
                    fourth = exact(residues[3, outer, channel, inner], bias, P3)
                    lo, hi = first | second << R32, third | fourth << R32
                element = out[outer, channel, inner]
                element.lo, element.hi = lo, hi
                element.kind, element.function = kind, function


@whole
def name_rows(words: Words, counts: Integers, keys: Words, kind: int, out: Elements) -> None:
    """Write the elements of roots that words name.

    Args:
        words: uint64[n, m], of which each row has `counts`, int64[n].
        keys: uint64[2].
        kind: of the roots, which 128 pseudo-random bits of the words name.
        out: elements[n].
    """
    for row in range(len(out)):
        a, b, c, d = begin(keys[0], keys[1])
        for place in range(counts[row]):
            a, b, c, d = take(a, b, c, d, words[row, place])
        first, second = end(a, b, c, d, counts[row])
        out[row].lo = first
        out[row].hi = second
        out[row].kind = kind
        out[row].function = IDENTITY


@part
def place_of(kind: int, lo: np.uint64, hi: np.uint64, mask: np.uint64) -> Any:
    """Return where the search for a root in a table begins."""
    mixed = (lo ^ hi * MIX_1 ^ np.uint64(kind) * MIX_2) * MIX_3
    return mixed >> R32 & mask


@whole
def enter_roots(roots: Elements, table: Numbers) -> None:
    """Enter roots, elements[n], which differ, into a table without entries, for `number_roots`."""
    mask = np.uint64(len(table) - 1)
    for number in range(len(roots)):
        root = roots[number]
        at = place_of(root.kind, root.lo, root.hi, mask)
        while table[at] >= 0:
            at = at + np.uint64(1) & mask
        table[at] = number


@whole
def number_roots(elements: Elements, table: Numbers, roots: Elements, count: Integers, out: Integers) -> None:
    """Write the numbers of the roots of elements; new roots get the next numbers.

    Args:
        elements: elements[n].
        table: int32[size], a power of two, at least twice the roots: numbers by hash, -1 where there is none.
        roots: elements[room], the root of each number, with room for n more.
        count: int64[1], of the roots.
        out: int64[n].
    """
    mask = np.uint64(len(table) - 1)
    for place in range(len(elements)):
        element = elements[place]
        at = place_of(element.kind, element.lo, element.hi, mask)
        while table[at] >= 0:
            known = roots[table[at]]
            if known.lo == element.lo and known.hi == element.hi and known.kind == element.kind:
                break
            at = at + np.uint64(1) & mask
        if table[at] < 0:
            table[at] = count[0]
            root = roots[count[0]]
            root.lo, root.hi, root.kind, root.function = element.lo, element.hi, element.kind, IDENTITY
            count[0] += 1
        out[place] = table[at]


@whole
def look_at_members(
    codes: Integers,
    least: Integers,
    greatest: Integers,
    counts: Integers,
    lows: Integers,
    highs: Integers,
    irregular: Flags,
) -> None:
    """Describe sorted rows of members (`vdla.prove.sets`).

    Args:
        codes: int64[n, m], behind the members of a row `NO_MEMBER`.
        least, greatest: int64[functions], of their values.
        counts: int64[n], gets the number of members.
        lows, highs: int64[n], get the greatest of the members' least values, and of their greatest values.
        irregular: bool[n], gets whether two members have the same root, or a member is a constant or can be
            less than `lows`.
    """
    for row in range(codes.shape[0]):
        count, least_low, low, high, joins = 0, NO_MEMBER, -NO_MEMBER, -NO_MEMBER, False
        while count < codes.shape[1] and codes[row, count] != NO_MEMBER:
            function = codes[row, count] & MEMBER_FUNCTION
            if count > 0:
                joins |= codes[row, count] >> MEMBER_BITS == codes[row, count - 1] >> MEMBER_BITS
            joins |= least[function] == greatest[function]
            least_low = min(least_low, least[function])
            low, high = max(low, least[function]), max(high, greatest[function])
            count += 1
        counts[row], lows[row], highs[row] = count, low, high
        irregular[row] = joins or least_low < low


@whole
def mark_different(
    elements: Elements, places: Integers, others: Elements, numbers: Integers, out: Flags
) -> None:
    """Write whether elements[places[n]] and others[numbers[n]] differ, bool[n]."""
    for row in range(len(places)):
        left, right = elements[places[row]], others[numbers[row]]
        same_root = left.lo == right.lo and left.hi == right.hi and left.kind == right.kind
        out[row] = not (same_root and left.function == right.function)


@part
def common_root(elements: Elements, base: int, offsets: Integers, places: Integers, count: int) -> int:
    """Return the first of elements[base + offsets[places[:count]]] that has a root, as a place, if no other
    has another root; -1 if none has a root, -2 if they have several."""
    first = -1
    for number in range(count):
        element = elements[base + offsets[places[number]]]
        if element.kind == NO_ROOT:
            continue
        if first < 0:
            first = places[number]
            continue
        other = elements[base + offsets[first]]
        if element.kind != other.kind or element.lo != other.lo or element.hi != other.hi:
            return -2
    return first


@whole
def common_roots(
    elements: Elements, bases: Integers, offsets: Integers, used: Flags, scratch: Integers, out: Integers
) -> None:
    """Write which sums of terms have at most one root.

    Args:
        elements: elements[n].
        bases: int64[P]; sum p has terms of the elements from `bases[p]` on.
        offsets: int64[K], of the terms from there.
        used: bool[M, K], whether the sums of a row have a term.
        scratch: int64[K], which is overwritten.
        out: int64[M, P]: the place of the first term with a root; -1 without roots, -2 with several.
    """
    for row in range(out.shape[0]):
        count = 0
        for place in range(used.shape[1]):
            if used[row, place]:
                scratch[count] = place
                count += 1
        for column in range(out.shape[1]):
            out[row, column] = common_root(elements, bases[column], offsets, scratch, count)
