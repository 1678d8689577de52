"""Readers of waveforms, as far as tests need them: names and times, and of VCD the values."""

from dataclasses import dataclass, field
from pathlib import Path

FST_HEADER, FST_HIERARCHY_LZ4 = 0, 6
ATTRIBUTE, END_OF_ATTRIBUTE, SCOPE, UPSCOPE = 252, 253, 254, 255


@dataclass
class Waveform:
    """What a file shows.

    Attributes:
        signals: with their scopes, separated by dots.
        times: the first and the last.
        changes: of each signal, (time, value) in order; of VCD only.
    """

    signals: list[str]
    times: tuple[int, int]
    changes: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    @property
    def cycles(self) -> tuple[int, int]:
        """The first and the last cycle."""
        return self.times[0] // 10, self.times[1] // 10

    def value(self, signal: str, cycle: int) -> int:
        """Return the value of a signal in the first half of a cycle."""
        return int([value for time, value in self.changes[signal] if time <= 10 * cycle][-1], 2)


def read_vcd(path: Path) -> Waveform:
    """Read a whole VCD file."""
    head, _, body = path.read_text().partition("$enddefinitions $end")
    scopes, names = [], {}
    for words in map(str.split, head.splitlines()):
        if words[:1] == ["$scope"]:
            scopes.append(words[2])
        elif words[:1] == ["$upscope"]:
            scopes.pop()
        elif words[:1] == ["$var"]:
            names.setdefault(words[3], []).append(".".join([*scopes, words[4]]))
    assert not scopes
    changes, times = {name: [] for known in names.values() for name in known}, []
    for line in filter(None, map(str.strip, body.splitlines())):
        if line[0] == "#":
            times.append(int(line[1:]))
            continue
        value, code = line[1:].split() if line[0] == "b" else (line[0], line[1:])
        for name in names[code]:
            changes[name].append((times[-1], value))
    assert times == sorted(times)
    return Waveform(list(changes), (times[0], times[-1]), changes)


def read_fst(path: Path) -> Waveform:
    """Read header and hierarchy of an FST file, whose blocks must end where it does."""
    data, place, blocks = path.read_bytes(), 0, {}
    while place < len(data):
        length = int.from_bytes(data[place + 1 : place + 9], "big")
        blocks[data[place]] = data[place + 9 : place + 1 + length]
        place += 1 + length
    assert place == len(data)
    times = (int.from_bytes(blocks[FST_HEADER][start : start + 8], "big") for start in (0, 8))
    packed = blocks[FST_HIERARCHY_LZ4]
    hierarchy = lz4_block(packed[8:])
    assert len(hierarchy) == int.from_bytes(packed[:8], "big")
    return Waveform(list(_signals(hierarchy)), tuple(times))


def _signals(hierarchy: bytes):
    place, scopes = 0, []

    def text() -> str:
        nonlocal place
        end = hierarchy.index(0, place)
        place, decoded = end + 1, hierarchy[place:end].decode()
        return decoded

    def number() -> None:
        nonlocal place
        while hierarchy[place] & 0x80:
            place += 1
        place += 1

    while place < len(hierarchy):
        tag = hierarchy[place]
        place += 1
        if tag == SCOPE:
            place += 1
            scopes.append(text())
            text()
        elif tag == UPSCOPE:
            scopes.pop()
        elif tag == ATTRIBUTE:
            place += 2
            text(), number()
        elif tag != END_OF_ATTRIBUTE:
            assert tag < 30, f"a variable's type, not {tag}"
            place += 1
            yield ".".join([*scopes, text().partition(" ")[0]])
            number(), number()


def lz4_block(data: bytes) -> bytes:
    """Return what an LZ4 block holds."""
    out, place = bytearray(), 0

    def length(nibble: int) -> int:
        nonlocal place
        total, more = nibble, nibble == 15
        while more:
            more = data[place] == 255
            total, place = total + data[place], place + 1
        return total

    while place < len(data):
        token = data[place]
        place += 1
        count = length(token >> 4)
        out += data[place : place + count]
        place += count
        if place == len(data):
            break
        distance = int.from_bytes(data[place : place + 2], "little")
        place += 2
        for _ in range(length(token & 15) + 4):
            out.append(out[-distance])
    return bytes(out)
