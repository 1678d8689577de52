"""Limits of memory: to the byte, multiplied by the factor of the environment, and told whole."""

import os
import re
import threading
from pathlib import Path

import pytest

from vdla.hw.spec import limits
from vdla.hw.spec.errors import ConfigError, VdlaError
from vdla.hw.spec.limits import FACTOR, limit_of, read_at_most, require_room

PAGE = " ".join((Path(__file__).parents[3] / "docs" / "networks.md").read_text().split())
UNITS = {"MiB": 1 << 20, "GiB": 1 << 30, "": 1}
STATED = {
    r"arrays of ([\d,]+) (MiB) in all": limits.ARRAY_BYTES,
    r"([\d,]+) ()arrays": limits.ARCHIVE_MEMBERS,
    r"a manifest of ([\d,]+) (MiB)": limits.MANIFEST_BYTES,
    r"([\d,]+) (GiB) of DRAM": limits.DRAM_BYTES,
    r"([\d,]+) (GiB) of tensors on the host": limits.HOST_BYTES,
    r"before it expands any: at most ([\d,]+)()": limits.EXPANDED_NODES,
}


@pytest.mark.parametrize("sentence", STATED)
def test_a_limit_is_the_one_on_the_page(sentence):
    ((number, unit),) = re.findall(sentence, PAGE)
    assert int(number.replace(",", "")) * UNITS[unit] == STATED[sentence]


@pytest.mark.parametrize("name", [name for name in vars(limits) if name.endswith("_BYTES")])
def test_a_command_on_one_file_stays_below_two_gigabytes(name):
    size = getattr(limits, name)
    assert size & (size - 1) == 0
    assert size <= 1 << 30
    assert (name == "PIECE_BYTES") == (size < 1 << 20)


@pytest.mark.parametrize(
    ("text", "factor"), [(None, 1), ("1", 1), ("2", 2), ("007", 7), ("999999999", 999_999_999)]
)
def test_the_factor_multiplies_a_limit(text, factor, monkeypatch):
    monkeypatch.delenv(FACTOR, raising=False)
    if text:
        monkeypatch.setenv(FACTOR, text)
    assert limit_of(5) == 5 * factor


@pytest.mark.parametrize("text", ["", "0", "000", "-1", "1.5", "two", "²", "1000000000", "٣"])
def test_a_factor_that_is_no_number_from_1_on_is_refused(text, monkeypatch):
    monkeypatch.setenv(FACTOR, text)
    with pytest.raises(VdlaError) as caught:
        limit_of(5)
    assert str(caught.value) == f"VDLA_MEMORY_FACTOR = {text!r} is not a whole number of at least 1"


@pytest.mark.parametrize(("factor", "greatest"), [("1", 10), ("3", 30)])
def test_a_size_up_to_the_limit_has_room(factor, greatest, monkeypatch):
    monkeypatch.setenv(FACTOR, factor)
    require_room(greatest, 10, "it takes", ConfigError)
    with pytest.raises(ConfigError) as caught:
        require_room(greatest + 1, 10, "it takes", ConfigError)
    assert str(caught.value) == (
        f"it takes {greatest + 1} bytes, and the limit is {greatest}; "
        "VDLA_MEMORY_FACTOR=2 in the environment doubles every limit of memory"
    )
    with pytest.raises(ValueError, match=rf"^it has {greatest + 1} members, and the limit is {greatest}; "):
        require_room(greatest + 1, 10, "it has", ValueError, "members")


@pytest.mark.parametrize("size", [0, 1, 9, 10])
def test_a_file_up_to_the_limit_is_read_whole(size, tmp_path):
    (tmp_path / "file").write_bytes(bytes(range(size)))
    assert read_at_most(tmp_path / "file", 10, ConfigError) == bytes(range(size))


@pytest.mark.parametrize("size", [11, 12, 1000])
def test_a_longer_file_is_refused(size, tmp_path):
    (tmp_path / "file").write_bytes(bytes(size))
    with pytest.raises(ConfigError) as caught:
        read_at_most(tmp_path / "file", 10, ConfigError)
    assert (
        str(caught.value)
        == f"{tmp_path / 'file'} has more than 10 bytes, and no more are read of such a file"
    )


@pytest.mark.parametrize(("size", "is_read"), [(10, True), (11, False)])
def test_a_pipe_is_read_to_its_end_or_to_the_limit(size, is_read, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "PIECE_BYTES", 4)
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(bytes(range(size))))
    writer.start()
    if is_read:
        assert read_at_most(tmp_path / "pipe", 10, ConfigError) == bytes(range(size))
    else:
        with pytest.raises(ConfigError, match="has more than 10 bytes"):
            read_at_most(tmp_path / "pipe", 10, ConfigError)
    writer.join()


@pytest.mark.parametrize("limit", [0, 10])
def test_no_more_of_a_pipe_is_read_than_shows_that_it_is_too_long(limit, tmp_path, monkeypatch):
    """Its size is 0 before it is read."""
    monkeypatch.setattr(limits, "PIECE_BYTES", 4)
    os.mkfifo(tmp_path / "pipe")
    told = []

    def write() -> None:
        try:
            (tmp_path / "pipe").write_bytes(bytes(1 << 20))
        except BrokenPipeError:
            told.append("broken")

    writer = threading.Thread(target=write)
    writer.start()
    with pytest.raises(ConfigError, match=f"has more than {limit} bytes"):
        read_at_most(tmp_path / "pipe", limit, ConfigError)
    writer.join()
    assert told == ["broken"]
