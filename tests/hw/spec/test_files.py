"""Configuration files: whatever is in them, they are read or refused with one message of bounded length."""

import json
from pathlib import Path

import pytest

from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.errors import ConfigError
from vdla.hw.spec.files import (
    LARGEST_FILE_BYTES,
    apply_settings,
    load,
    read_text,
    whole_number,
)
from vdla.hw.spec.presets import DEFAULT, VTA
from vdla.hw.spec.vta_json import from_vta_json, to_vta_json

LONGEST_MESSAGE = 1000


def refused(path: Path) -> str:
    """Return why a file is refused."""
    with pytest.raises(ConfigError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    assert len(message) < LONGEST_MESSAGE
    return message.removeprefix(str(path))


TOML = {
    f"batch = {'9' * 5000}": "is not TOML: a number has more than 4,300 digits",
    f"batch = -{'9' * 5000}": "is not TOML: a number has more than 4,300 digits",
    f"batch = 0x{'f' * 5000}": ": batch = a number of 20000 bits is outside 1..64",
    f"inp_bits = 0x{'f' * 5000}": ": inp_bits = a number of 20000 bits is none of 2, 4, 8",
    f"batch = {'9' * 300}": ": batch = a number of 997 bits is outside 1..64",
    f"batch = {'[' * 3000}{']' * 3000}": "is nested too deeply",
    f"batch = {'[' * 150}{']' * 150}": ": batch = [[[[[[[...]]]]]]] is not a whole number",
    f"alu_opcodes = {'[' * 150}{']' * 150}": ": alu_opcodes holds [[[[[[[...]]]]]]], which is none of",
    f"alu_opcodes = [0x{'f' * 5000}]": ": alu_opcodes holds a number of 20000 bits, which is none of MIN",
    "alu_opcodes = [{a = 1}]": ": alu_opcodes holds {'a': 1}, which is none of MIN",
    "alu_opcodes = [1979-05-27]": ": alu_opcodes holds datetime.date(1979, 5, 27), which is none of MIN",
    "extensions = [nan]": ": extensions holds nan, which is none of",
    f"alu_opcodes = ['{'x' * 5000}']": ": alu_opcodes holds 'xxx",
    f"batch = '{'x' * 5000}'": ": batch = 'xxx",
    f"{'x' * 5000} = 1": ": configuration parameter 'xxx",
    "name = []": ": name = [] is not text",
    "name = 3": ": name = 3 is not text",
    "name = {}": ": name = {} is not text",
    "name = '''two\nlines'''": r": name = 'two\nlines' holds characters that cannot be printed on one line",
    '"name\\nbatch" = 1': r": configuration parameter 'name\nbatch' is unknown",
    "batch = inf": ": batch = inf is not a whole number",
    "batch = 12:00:00": ": batch = datetime.time(12, 0) is not a whole number",
    "a." * 2000 + "b = 1": "",
}


@pytest.mark.parametrize("text", TOML, ids=lambda text: text[:30])
def test_toml_that_is_no_configuration_is_refused_in_one_line(text, tmp_path):
    (tmp_path / "odd.toml").write_text(text)
    assert TOML[text] in refused(tmp_path / "odd.toml")


JSON = {
    f'{{"LOG_BATCH": {"9" * 5000}}}': "is not JSON: Exceeds the limit",
    f'{{"LOG_BATCH": {"9" * 4000}}}': ": LOG_BATCH = a number of 13288 bits is not a whole number in 0..30",
    f'{{"LOG_BATCH": {"[" * 3000}{"]" * 3000}}}': "is nested too deeply",
    f'{{"LOG_BATCH": {"[" * 150}{"]" * 150}}}': ": LOG_BATCH = [[[[[[[...]]]]]]] is not a whole number",
    f'{{"LOG_BLOCK": "{"x" * 5000}"}}': ": LOG_BLOCK = 'xxx",
    f'{{"{"x" * 5000}": 1}}': ": key 'xxx",
    '{"\\ud800": 1}': r": key '\ud800' is unknown",
    '{"LOG_BATCH": NaN}': ": LOG_BATCH = nan is not a whole number",
    '{"LOG_BATCH": true}': ": LOG_BATCH = True is not a whole number",
    "[" * 100_000: "is nested too deeply",
}


@pytest.mark.parametrize("text", JSON, ids=lambda text: text[:30])
def test_vta_json_that_is_no_configuration_is_refused_in_one_line(text, tmp_path):
    (tmp_path / "odd.json").write_text(text)
    assert JSON[text] in refused(tmp_path / "odd.json")


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_a_file_longer_than_any_configuration_is_not_read_to_its_end(suffix, tmp_path):
    path = tmp_path / f"long.{suffix}"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    assert refused(path) == f" has more than {LARGEST_FILE_BYTES} bytes, and no more are read of such a file"


@pytest.mark.parametrize("value", ["9" * 5000, "0x" + "f" * 5000, "9" * 300])
def test_a_setting_with_a_long_number_is_refused_in_one_line(value):
    with pytest.raises(ConfigError) as caught:
        apply_settings(DEFAULT, [f"batch={value}"])
    assert len(str(caught.value)) < LONGEST_MESSAGE


def test_a_name_is_text():
    with pytest.raises(ConfigError, match=r"^name = 3 is not text$"):
        AcceleratorConfig(name=3)


def test_a_file_of_a_mebibyte_is_read(tmp_path):
    (tmp_path / "long").write_text("#" * (1 << 20))
    assert read_text(tmp_path / "long") == "#" * (1 << 20)
    (tmp_path / "long").write_text("#" * ((1 << 20) + 1))
    with pytest.raises(ConfigError, match="has more than 1048576 bytes"):
        read_text(tmp_path / "long")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("64", 64),
        ("-3", -3),
        ("0x20", 32),
        ("0o17", 15),
        ("1_000", 1000),
        ("2K", 2048),
        ("2kib", 2048),
        ("3M", 3 << 20),
        ("3MiB", 3 << 20),
        ("", None),
        ("K", None),
        ("3KB", None),
        ("3B", None),
        ("3G", None),
        ("1.5K", None),
        ("x", None),
    ],
)
def test_a_size_may_end_in_kibibytes_and_mebibytes(text, number):
    if number is not None:
        assert whole_number("x", text) == number
    else:
        with pytest.raises(ConfigError) as caught:
            whole_number("x", text)
        assert str(caught.value) == f"x = {text!r} is not a whole number (it may end in KiB or MiB)"


def test_vta_json_has_the_logarithms_of_its_parameters():
    assert to_vta_json(VTA).startswith('{\n  "TARGET": "sim",\n  "HW_VER": "0.0.2",\n  "LOG_BATCH": 0,\n')
    square = json.loads(to_vta_json(VTA))
    assert square == {
        "TARGET": "sim",
        "HW_VER": "0.0.2",
        "LOG_BATCH": 0,
        "LOG_BLOCK": 4,
        "LOG_INP_WIDTH": 3,
        "LOG_WGT_WIDTH": 3,
        "LOG_ACC_WIDTH": 5,
        "LOG_UOP_BUFF_SIZE": 15,
        "LOG_INP_BUFF_SIZE": 15,
        "LOG_WGT_BUFF_SIZE": 18,
        "LOG_ACC_BUFF_SIZE": 17,
    }
    oblong = json.loads(to_vta_json(VTA.with_changes(block_in=8)))
    assert square.pop("LOG_BLOCK") == 4
    assert oblong == {**square, "LOG_BLOCK_IN": 3, "LOG_BLOCK_OUT": 4}


def test_a_block_of_vta_json_is_both_and_each_may_be_given_apart():
    config = from_vta_json('{"LOG_BLOCK": 3, "LOG_BLOCK_OUT": 5}', "folder/name.json")
    assert (config.block_in, config.block_out, config.name) == (8, 32, "name")
    for exponent in (-1, 31):
        with pytest.raises(
            ConfigError, match=rf"^f: LOG_BATCH = {exponent} is not a whole number in 0..30; "
        ):
            from_vta_json(f'{{"LOG_BATCH": {exponent}}}', "f")
    with pytest.raises(ConfigError) as caught:
        to_vta_json(DEFAULT.with_changes(extensions=("table", "requantise")))
    assert str(caught.value) == (
        "extensions = requantise, table cannot be said in VTA's JSON; switch them off or write TOML"
    )


def test_a_setting_may_have_spaces_and_the_last_of_a_name_counts():
    config = apply_settings(DEFAULT, [" block_in = 32", "name= a = b ", "block_in=8"])
    assert (config.block_in, config.name) == (8, "a = b")
