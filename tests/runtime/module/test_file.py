"""Module files: a written module reads back equal, and only a whole module is read."""

import hashlib
import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.compiler.network.compiled import carrying, handmade, plan_of
from tests.compiler.network.graphs import HANDMADE, Net
from tests.runtime.module.module_bytes import everything, members, npz, refused, sealed
from vdla.hw.spec.presets import TINY
from vdla.runtime.module import file
from vdla.runtime.module.file import (
    HEADER,
    MAGIC,
    MANIFEST,
    VERSION,
    from_bytes,
    load,
    save,
    stated_digest,
    to_bytes,
)
from vdla.runtime.module.plan import HostStep, ModuleError

RNG = np.random.default_rng(0)
TITLES = (
    "residual",
    "with the host between",
    "several ends",
    "split",
    "only the host",
    "nothing",
    "gathered",
)


@pytest.fixture
def saved(tmp_path) -> Path:
    save(handmade("split")[1], tmp_path / "net.vdla")
    return tmp_path / "net.vdla"


@pytest.mark.parametrize("title", TITLES)
@pytest.mark.parametrize("carries_graphs", [False, True])
def test_a_module_reads_back_equal_and_is_written_the_same_twice(title, carries_graphs, tmp_path):
    assert title in HANDMADE
    plan = carrying(title) if carries_graphs else handmade(title)[1]
    save(plan, tmp_path / "net.vdla")
    assert everything(load(tmp_path / "net.vdla")) == everything(plan)
    assert to_bytes(load(tmp_path / "net.vdla")) == to_bytes(plan) == (tmp_path / "net.vdla").read_bytes()


def test_a_module_of_wide_instructions_and_micro_ops_reads_back_equal():
    config = TINY.with_changes(block_in=1, block_out=1, acc_buffer_bytes=1 << 18)
    plan = plan_of(HANDMADE["split"](Net()), config)
    streams = list(plan.streams.values())
    assert {(stream.words.shape[1], stream.uops.dtype) for stream in streams} == {(4, np.dtype("u8"))}
    assert everything(from_bytes(to_bytes(plan))) == everything(plan)
    name = next(iter(plan.streams))
    halves = replace(streams[0], words=streams[0].words[:, :2], uops=streams[0].uops.astype(np.uint32))
    broken = replace(plan, streams={**plan.streams, name: halves})
    assert "with micro-ops uint32, not uint64[n, 4] and uint64" in refused(to_bytes(broken))


def test_members_have_the_earliest_date_that_a_zip_file_can_state(saved):
    with zipfile.ZipFile(io.BytesIO(saved.read_bytes()[HEADER.size :])) as file:
        assert {member.date_time for member in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_nothing_else_is_left_in_the_folder(saved):
    assert list(saved.parent.iterdir()) == [saved]


# Damage


def test_a_truncated_module_is_refused(saved):
    data = saved.read_bytes()
    for size in [*range(HEADER.size + 3), *RNG.integers(HEADER.size, len(data), 40), len(data) - 1]:
        if size < len(MAGIC):
            expected = (
                "net.vdla is not a module: it does not begin with VDLA-MOD; make one with `vdla compile"
            )
        elif size < HEADER.size:
            expected = (
                f"net.vdla is truncated: it has {size} bytes, and a header alone has {HEADER.size}; copy"
            )
        else:
            expected = (
                f"is truncated or has been added to: it holds {size - HEADER.size} bytes after its header"
            )
        message = refused(data[:size])
        assert expected in message
        assert "compile" in message


def test_every_bit_of_the_header_matters(saved):
    data = saved.read_bytes()
    for place in range(HEADER.size * 8):
        broken = bytearray(data)
        broken[place // 8] ^= 1 << place % 8
        assert "compile" in refused(bytes(broken)), place


def test_altered_contents_are_refused(saved):
    data = saved.read_bytes()
    for place in RNG.integers(HEADER.size * 8, len(data) * 8, 100):
        broken = bytearray(data)
        broken[place // 8] ^= 1 << place % 8
        assert refused(bytes(broken)) == (
            "net.vdla has been altered: its contents do not match their digest; copy it again, or "
            "compile the network "
            "again"
        )


def test_a_module_that_has_been_added_to_is_refused(saved):
    assert "has been added to: it holds" in refused(saved.read_bytes() + b"\0")


def test_another_version_is_refused(saved):
    data = bytearray(saved.read_bytes())
    data[len(MAGIC)] = VERSION + 1
    assert (
        refused(bytes(data))
        == f"net.vdla is a module of version {VERSION + 1}; this program reads version {VERSION}; compile the network again"
    )


def test_a_module_begins_with_its_version_its_size_and_its_digest(saved):
    data = saved.read_bytes()
    payload = data[56:]
    numbers = b"".join(number.to_bytes(8, "little") for number in (10, len(payload)))
    assert data[:56] == b"VDLA-MOD" + numbers + hashlib.sha256(payload).digest()
    assert members(data)[MANIFEST].startswith(b'{\n "name": "')


@pytest.mark.parametrize(
    "data",
    [b"", RNG.bytes(10 << 20), npz(x=np.arange(3)), b"VDLA", b"\x08\x08" * 50],
    ids=["empty", "noise", "npz", "short", "onnx"],
)
def test_what_is_no_module_is_refused(data, tmp_path):
    (tmp_path / "x.vdla").write_bytes(data)
    with pytest.raises(ModuleError) as caught:
        load(tmp_path / "x.vdla")
    assert str(caught.value) == (
        f"{tmp_path}/x.vdla is not a module: it does not begin with VDLA-MOD; make one with "
        "`vdla compile MODEL.onnx -o MODULE.vdla`"
    )


def test_noise_behind_the_right_beginning_is_refused():
    for size in RNG.integers(0, 4 * HEADER.size, 200):
        assert "compile" in refused(MAGIC + RNG.bytes(size)), size


@pytest.mark.parametrize(
    ("path", "message"),
    [("", "cannot be read: Is a directory"), ("none", "cannot be read: No such file or directory")],
)
def test_what_cannot_be_read_is_named(path, message, tmp_path):
    with pytest.raises(ModuleError) as caught:
        load(tmp_path / path)
    assert str(caught.value) == f"{tmp_path / path} {message}"


# Writing


def test_a_module_that_cannot_be_put_in_bytes_writes_nothing(tmp_path):
    _, plan = handmade("only the host")
    odd = replace(plan, steps=(HostStep("odd", "Transpose", ("x0",), ("v0",), {"perm": object()}),))
    with pytest.raises(TypeError):
        save(odd, tmp_path / "net.vdla")
    assert not list(tmp_path.iterdir())


def test_an_array_of_objects_is_not_written(tmp_path):
    _, plan = handmade("only the host")
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        save(replace(plan, constants={"c": np.array([print])}), tmp_path / "net.vdla")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("limit", "what"),
    [
        ("MANIFEST_BYTES", r"manifest.json of the module .* takes \d+ bytes"),
        ("ARCHIVE_MEMBERS", r"has \d+ members"),
    ],
)
def test_a_module_that_could_not_be_read_is_not_written(tmp_path, monkeypatch, limit, what):
    _, plan = handmade("split")
    monkeypatch.setattr(f"vdla.runtime.module.file.{limit}", 3)
    with pytest.raises(ModuleError, match=rf"{what}, and the limit is 3; VDLA_MEMORY_FACTOR=2"):
        save(plan, tmp_path / "net.vdla")
    assert not list(tmp_path.iterdir())


def test_as_many_members_are_written_as_are_read(tmp_path, monkeypatch):
    _, plan = handmade("split")
    save(plan, tmp_path / "net.vdla")
    count = len(members((tmp_path / "net.vdla").read_bytes()))
    monkeypatch.setattr("vdla.runtime.module.file.ARCHIVE_MEMBERS", count)
    save(plan, tmp_path / "net.vdla")
    monkeypatch.setattr("vdla.runtime.module.file.ARCHIVE_MEMBERS", count - 1)
    with pytest.raises(ModuleError, match=f"has {count} members, and the limit is {count - 1}"):
        save(plan, tmp_path / "net.vdla")


# Graphs


def graph_members(parts: dict[str, bytes]) -> dict[str, str]:
    return json.loads(parts[MANIFEST])["graphs"]["constants"]


def test_an_array_of_a_graph_that_a_host_step_reads_is_stored_once():
    plan = carrying("with the host between")
    key = next(iter(plan.graphs.constants))
    shared = replace(plan, constants={**plan.constants, "again": plan.graphs.constants[key].copy()})
    parts, other = members(to_bytes(shared)), members(to_bytes(plan))
    assert graph_members(other)[key].startswith("graphs/constants/")
    assert graph_members(parts)[key] == f"constants/{len(plan.constants)}"
    assert len(parts) == len(other)
    assert everything(from_bytes(to_bytes(shared))) == everything(shared)


def test_arrays_of_graphs_are_read_when_they_are_used(monkeypatch):
    data, read = to_bytes(carrying("residual")), []
    original = file.read_arrays
    monkeypatch.setattr(
        file,
        "read_arrays",
        lambda archive, names, *rest: (read.extend(names), original(archive, names, *rest))[1],
    )
    plan = from_bytes(data)
    assert read
    assert not [name for name in read if name.startswith("graphs/")]
    assert len(dict(plan.graphs.constants)) == sum(name.startswith("graphs/") for name in read) > 0


@pytest.mark.parametrize("name", ["graphs/integers.txt", "graphs/target.txt", "graphs/constants/0.npy"])
def test_a_part_of_the_graphs_that_is_missing_is_named(name):
    parts = members(to_bytes(carrying("residual")))
    assert name in refused(sealed({key: data for key, data in parts.items() if key != name}))


def test_a_text_that_is_no_text_is_refused():
    parts = members(to_bytes(carrying("residual")))
    assert "UnicodeDecodeError" in refused(sealed({**parts, "graphs/target.txt": b"\xff\xfe"}))


def test_a_damaged_array_of_a_graph_is_refused_when_it_is_read():
    parts = members(to_bytes(carrying("residual")))
    plan = from_bytes(sealed({**parts, "graphs/constants/0.npy": b"\x93NUMPY"}))
    with pytest.raises(
        ModuleError, match=r"the array graphs/constants/0 of its graphs cannot be read: .*; copy it again"
    ):
        dict(plan.graphs.constants)


def test_arrays_of_graphs_have_room_of_their_own(monkeypatch):
    data = to_bytes(carrying("residual"))
    sizes = {name: len(part) for name, part in members(data).items() if name.endswith(".npy")}
    total = sum(size for name, size in sizes.items() if name.startswith("graphs/"))
    monkeypatch.setattr(file, "ARRAY_BYTES", total)
    assert total < sum(sizes.values())
    assert from_bytes(data).graphs is not None
    monkeypatch.setattr(file, "ARRAY_BYTES", total - 1)
    assert f"the arrays of its graphs take {total} bytes, and the limit is {total - 1}; " in refused(data)


def test_the_page_states_the_version():
    page = (Path(__file__).parents[3] / "docs" / "networks.md").read_text()
    assert f"| 8 to 11 | version, {VERSION}; numbers are little-endian |" in page


def test_a_file_states_the_digest_of_its_contents(saved):
    assert stated_digest(saved) == hashlib.sha256(saved.read_bytes()[HEADER.size :]).digest()
