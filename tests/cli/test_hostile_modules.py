"""Modules whose digest matches but that no compiler wrote: `vdla inspect` and `vdla run` refuse them in one
line."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import run

import numpy as np
import pytest
from click.testing import CliRunner

from tests.compiler.network.compiled import handmade
from tests.runtime.module.module_bytes import array, members, sealed, with_header
from tests.runtime.zips import archive, npy, with_size, zeros
from vdla.cli import inspect
from vdla.cli import run as running
from vdla.runtime.module.file import MANIFEST, from_bytes, to_bytes

LONGEST_LINE = 1000
Manifest = dict


def host(manifest: Manifest) -> dict:
    return next(step for step in manifest["steps"] if step["on"] == "host")


def launch(manifest: Manifest) -> dict:
    return next(step for step in manifest["steps"] if step["on"] == "accelerator")


def layout(manifest: Manifest) -> dict:
    return launch(manifest)["packs"][0]["layout"]


def changed(
    change: Callable[[Manifest], object], title: str = "with the host between", **arrays: bytes
) -> bytes:
    """Return a module whose manifest has been changed, and arrays of which have been replaced."""
    parts = members(to_bytes(handmade(title)[1]))
    manifest = json.loads(parts[MANIFEST])
    change(manifest)
    return sealed({**parts, MANIFEST: json.dumps(manifest).encode(), **arrays})


def with_array(name: str, data: bytes) -> bytes:
    parts = members(to_bytes(handmade("with the host between")[1]))
    assert name in parts
    return sealed({**parts, name: data})


def refused(command, path: Path, *arguments: str) -> str:
    """Return the line with which a command refuses a file."""
    outcome = CliRunner().invoke(command, [str(path), *arguments])
    assert outcome.exit_code == 2, (outcome.exit_code, outcome.output, outcome.exception)
    lines = [line for line in outcome.stderr.splitlines() if not line.startswith("no --input given")]
    assert len(lines) == 1, outcome.stderr
    assert len(lines[0]) < LONGEST_LINE
    return lines[0]


TERABYTE = 1 << 40

READ = {  # what both commands refuse when they read the file
    "layer.macs is text": (
        lambda m: launch(m)["layers"][0].update(macs="many"),
        "Expected `int`, got `str` - at `$.steps[0].layers[0].macs`",
    ),
    "layer.macs is a list": (
        lambda m: launch(m)["layers"][0].update(macs=[1]),
        "Expected `int`, got `array`",
    ),
    "layer.macs is negative": (lambda m: launch(m)["layers"][0].update(macs=-1), "Expected `int` >= 0"),
    "layer.macs is long": (lambda m: launch(m)["layers"][0].update(macs=10**400), "layers[0].macs"),
    "layer.name is none": (
        lambda m: launch(m)["layers"][0].update(name=None),
        "Expected `str`, got `null` - at `$.steps[0].layers[0].name`",
    ),
    "layer.op is an object": (
        lambda m: launch(m)["layers"][0].update(op={}),
        "Expected `str`, got `object` - at `$.steps[0].layers[0].op`",
    ),
    "layer.bytes_read is a float": (
        lambda m: launch(m)["layers"][0].update(bytes_read=1.5),
        "Expected `int`, got `float`",
    ),
    "layer.label is a list": (
        lambda m: launch(m)["layers"][0].update(label=[]),
        "Expected `str`, got `array`",
    ),
    "a layer has another field": (
        lambda m: launch(m)["layers"][0].update(colour=1),
        "Object contains unknown field `colour`",
    ),
    "a layer lacks a field": (
        lambda m: launch(m)["layers"][0].pop("macs"),
        "Object missing required field `macs`",
    ),
    "a step is of no kind": (
        lambda m: host(m).update(on="fire"),
        "Invalid value 'fire' - at `$.steps[1].on`",
    ),
    "the name is a list": (lambda m: m.update(name=[]), "Expected `str`, got `array` - at `$.name`"),
    "the name is half a character": (lambda m: m.update(name="\ud800"), "Expected `str` matching regex"),
    "the name is two lines": (lambda m: m.update(name="a\nb"), "matching regex"),
    "a field has a name of two lines": (
        lambda m: launch(m).update({"a\nb": 1}),
        r"Object contains unknown field `a\nb` - at `$.steps[0]`",
    ),
    "the name is very long": (
        lambda m: m.update(name="x" * 5000),
        "Expected `str` of length <= 4096 - at `$.name`",
    ),
    "inputs are an object": (lambda m: m.update(inputs={}), "Expected `array`, got `object` - at `$.inputs`"),
    "a value has an unknown type": (
        lambda m: m["inputs"][0].update(dtype="O"),
        "Invalid enum value 'O' - at `$.inputs[0].dtype`",
    ),
    "a value has a negative extent": (
        lambda m: m["inputs"][0].update(shape=[-2]),
        "Expected `int` >= -1 - at `$.inputs[0].shape[0]`",
    ),
    "an input has an extent that only a run tells": (
        lambda m: m["inputs"][0].update(shape=[-1]),
        "input x0 is int8[-1]; only outputs may have an extent that is known after a run alone",
    ),
    "a value has extents of text": (
        lambda m: m["inputs"][0].update(shape="12"),
        "Expected `array`, got `str` - at `$.inputs[0].shape`",
    ),
    "a value has many dimensions": (
        lambda m: m["inputs"][0].update(shape=[1] * 99),
        "Expected `array` of length <= 16",
    ),
    "an input of terabytes": (
        lambda m: m["inputs"][0].update(shape=[1 << 20, 1 << 20]),
        "which takes 1099511627776 bytes, and the limit is 536870912",
    ),
    "an output of terabytes": (
        lambda m: m["outputs"][0].update(shape=[1 << 20, 1 << 20]),
        "and the limit is 536870912",
    ),
    "tensors of terabytes": (
        lambda m: m["tensors"].update(dict.fromkeys(m["tensors"], TERABYTE)),
        "its tensors, weights and streams take",
    ),
    "more tensors of terabytes": (
        lambda m: m["tensors"].update({f"t{i}": 1 << 61 for i in range(9)}),
        "its tensors, weights and streams take",
    ),
    "a tensor of exabytes": (lambda m: m["tensors"].update(x=10**30), "$.tensors[...]"),
    "a tensor of half a byte": (lambda m: m["tensors"].update(x=0.5), "Expected `int`, got `float`"),
    "a layout of terabytes": (lambda m: layout(m).update(shape=[1 << 30, 1 << 30]), "bytes, and tensor"),
    "a layout that wraps to nothing": (
        lambda m: layout(m).update(shape=[1, 1 << 30, 1 << 30, 16]),
        "bytes, and tensor",
    ),
    "a layout without dimensions": (lambda m: layout(m).update(shape=[]), "a layout without dimensions"),
    "a layout with extent 0": (lambda m: layout(m).update(shape=[0, 4]), "Expected `int` >= 1"),
    "a layout of blocks of text": (lambda m: layout(m).update(block="4"), "Expected `int`, got `str`"),
    "a layout in batches of 0": (lambda m: layout(m).update(batch=0), "Expected `int` >= 1"),
    "windows of a matrix": (
        lambda m: layout(m).update(windows=WINDOWS, shape=[2, 3], batch=1),
        "is read in windows, and has 2 dimensions, not 4",
    ),
    "windows that end behind their row": (
        lambda m: layout(m).update(windows={**WINDOWS, "columns": 9}, shape=[1, 1, 2, 2], batch=1),
        "do not hold",
    ),
    "windows no bytes apart": (
        lambda m: layout(m).update(windows={**WINDOWS, "step": 0}),
        "Expected `int` >= 1",
    ),
    "a value read back in windows": (
        lambda m: launch(m)["unpacks"][0]["layout"].update(windows=WINDOWS, shape=[1, 1, 2, 2], batch=1),
        "is read back in windows, which cannot be undone",
    ),
    "a border that is no int8": (
        lambda m: layout(m).update(windows={**WINDOWS, "border": 300}),
        "Expected `int` <= 127",
    ),
    "a border of one number": (
        lambda m: layout(m).update(windows={**WINDOWS, "pads": [0]}),
        "of length 2",
    ),
    "lines of rows far apart": (
        lambda m: layout(m).update(windows={**WINDOWS, "advance": 1 << 30}, shape=[1, 1, 2, 2], batch=1),
        "packing",
    ),
    "an attribute has a name of two lines": (
        lambda m: host(m)["attributes"].update({"a\nb": 1}),
        "Expected `str` matching regex",
    ),
    "a parameter has a name of two lines": (
        lambda m: m["config"].update({"a\nb": 1}),
        "Expected `str` matching regex",
    ),
    "an attribute is text": (
        lambda m: host(m)["attributes"].update(perm="x"),
        "attribute perm = 'x' is not what Transpose takes: Expected `array`, got `str`",
    ),
    "an attribute is a number": (
        lambda m: host(m)["attributes"].update(perm=3),
        "attribute perm = 3 is not what Transpose takes",
    ),
    "an attribute holds floats": (
        lambda m: host(m)["attributes"].update(perm=[0.5]),
        "Expected `int`, got `float` - at `$[0]`",
    ),
    "an attribute is an object": (
        lambda m: host(m)["attributes"].update(perm={}),
        "got `object` - at `$.steps[1].attributes[...]`",
    ),
    "an attribute is none": (lambda m: host(m)["attributes"].update(perm=None), "got `null`"),
    "an attribute is long": (lambda m: host(m)["attributes"].update(perm=[10**400]), "attributes[...]"),
    "a cast to objects": (
        lambda m: host(m).update(op="Cast", attributes={"to": "O"}),
        "attribute to = 'O' is not what Cast takes: Invalid enum value 'O'",
    ),
    "a fill of objects": (
        lambda m: host(m).update(op="ConstantOfShape", attributes={"dtype": "O", "shape": [1], "value": 0}),
        "Invalid enum value 'O'",
    ),
    "a resize in no mode": (
        lambda m: host(m).update(
            op="Resize",
            attributes={
                "coordinate_transformation_mode": "x",
                "nearest_mode": "floor",
                "scales": [2.0, 2.0],
                "sizes": [4, 4],
            },
        ),
        "attribute coordinate_transformation_mode = 'x'",
    ),
    "padding in no mode": (
        lambda m: host(m).update(op="Pad", attributes={"mode": "x", "pads": [], "value": 0}),
        "attribute mode = 'x'",
    ),
    "the configuration holds lists": (
        lambda m: m["config"].update(batch=[1]),
        "Expected `str`, got `int` - at `$.config[...][0]`",
    ),
    "the configuration has a long number": (
        lambda m: m["config"].update(batch=10**400),
        "batch = a number of 1329 bits is outside 1..64",
    ),
    "the configuration's name is a list": (
        lambda m: m["config"].update(name=["a"]),
        "name = ('a',) is not text",
    ),
    "weights that are not there": (lambda m: m["weights"].append("w"), "is missing"),
}


@pytest.mark.parametrize("title", READ)
@pytest.mark.parametrize("command", [inspect.command, running.command], ids=["inspect", "run"])
def test_a_manifest_that_no_compiler_wrote_is_refused(command, title, tmp_path):
    change, message = READ[title]
    (tmp_path / "x.vdla").write_bytes(changed(change))
    assert message in refused(command, tmp_path / "x.vdla")


WINDOWS = {
    "lines": 2,
    "rows": 1,
    "advance": 1,
    "column": 2,
    "columns": 2,
    "step": 3,
    "pads": [0, 0],
    "pitch": 7,
    "elements": 1,
    "border": 0,
}
ARRAYS = {
    "no instructions": (
        "streams/launch0/words.npy",
        array(np.zeros((0, 2), np.uint64)),
        "has positions outside it",
    ),
    "words of no dimension": ("streams/launch0/words.npy", array(np.uint64(1)), "not uint64[n, 2]"),
    "micro-ops of two dimensions": (
        "streams/launch0/uops.npy",
        array(np.zeros((2, 2), np.uint32)),
        "have 2 dimensions, not 1",
    ),
    "labels that are text": (
        "streams/launch0/labels/0.npy",
        array(np.array(["a"])),
        "has positions outside it",
    ),
    "labels that are huge": (
        "streams/launch0/labels/0.npy",
        array(np.array([1 << 63], np.uint64)),
        "has positions outside it",
    ),
    "labels that are negative": (
        "streams/launch0/labels/0.npy",
        array(np.array([-1])),
        "has positions outside it",
    ),
    "a shape without elements to match": (
        "streams/launch0/uops.npy",
        npy((1 << 40,), b"", "<u4"),
        "is an array of 4398046511104 bytes",
    ),
    "objects": (
        "streams/launch0/uops.npy",
        npy((1,), bytes(8), "|O"),
        "holds elements of type object, not numbers",
    ),
}


@pytest.mark.parametrize("title", ARRAYS)
@pytest.mark.parametrize("command", [inspect.command, running.command], ids=["inspect", "run"])
def test_an_array_that_no_compiler_wrote_is_refused(command, title, tmp_path):
    name, data, message = ARRAYS[title]
    (tmp_path / "x.vdla").write_bytes(with_array(name, data))
    assert message in refused(command, tmp_path / "x.vdla")


RUN = {  # what is known only when it runs
    "a value of another shape": (
        changed(lambda m: (layout(m).update(shape=[2, 1]), launch(m).update(packs=launch(m)["packs"][:1]))),
        "takes int8[2, 1]",
    ),
    "a permutation of no axes": (
        changed(lambda m: host(m)["attributes"].update(perm=[7, 8, 9])),
        "Transpose the Transpose on the host: ",
    ),
    "an input left out": (
        changed(lambda m: host(m).update(inputs=[""])),
        "Transpose the Transpose on the host: ",
    ),
    "no inputs": (changed(lambda m: host(m).update(inputs=[])), "Transpose the Transpose on the host: "),
    "a tensor of terabytes": (
        changed(lambda m: host(m).update(op="Tile", attributes={"repeats": [1 << 20, 1 << 20]})),
        "and the limit is 1073741824",
    ),
    "a fill of terabytes": (
        changed(
            lambda m: host(m).update(
                op="ConstantOfShape", inputs=[], attributes={"dtype": "int8", "shape": [1 << 40], "value": 0}
            )
        ),
        "and the limit is 1073741824",
    ),
}


@pytest.mark.parametrize("title", RUN)
@pytest.mark.parametrize("device", ["functional", "cycle"])
def test_a_module_that_cannot_run_is_refused_in_one_line(title, device, tmp_path):
    data, message = RUN[title]
    (tmp_path / "x.vdla").write_bytes(data)
    outcome = CliRunner().invoke(inspect.command, [str(tmp_path / "x.vdla")])
    assert outcome.exit_code == 0, outcome.output
    assert message in refused(running.command, tmp_path / "x.vdla", "--device", device)


def test_a_layer_without_instructions_takes_no_cycles(tmp_path):
    parts = members(to_bytes(handmade("residual")[1]))
    (tmp_path / "x.vdla").write_bytes(
        sealed({**parts, "streams/launch0/labels/0.npy": array(np.zeros(0, np.int64))})
    )
    outcome = CliRunner().invoke(running.command, [str(tmp_path / "x.vdla"), "--device", "cycle", "--json"])
    assert outcome.exit_code == 0, outcome.exception
    assert json.loads(outcome.stdout)["layers"][0]["cycles"] == 0


BOMBS = {
    "arrays": lambda: archive(
        {MANIFEST: b"{}", **{f"weights/{number}.npy": zeros(100 << 20) for number in range(6)}}
    ),
    "manifest": lambda: archive({MANIFEST: b" " * (100 << 20)}),
    "a directory that lies": lambda: with_size(archive({MANIFEST: b" " * (100 << 20)}), 1000),
}
MEASURED = """
import sys
from pathlib import Path
from vdla.cli import main
try:
    main(sys.argv[1:])
finally:
    lines = Path("/proc/self/status").read_text().splitlines()
    print(*[line.split()[1] for line in lines if line.startswith("VmHWM")])
"""
PEAK_KIB = 300 << 10


@pytest.mark.parametrize("title", BOMBS)
def test_an_archive_that_unfolds_to_much_takes_little_memory(title, tmp_path):
    (tmp_path / "x.vdla").write_bytes(with_header(BOMBS[title]()))
    done = run(
        [sys.executable, "-c", MEASURED, "inspect", str(tmp_path / "x.vdla")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert int(done.stdout) < PEAK_KIB


def test_floats_that_are_no_numbers_read_back_equal(tmp_path):
    data = changed(
        lambda m: host(m).update(op="Clip", attributes={"min": float("-inf"), "max": float("inf")})
    )
    (tmp_path / "x.vdla").write_bytes(data)
    assert CliRunner().invoke(inspect.command, [str(tmp_path / "x.vdla")]).exit_code == 0
    assert from_bytes(data).host_steps[0].attributes == {"min": float("-inf"), "max": float("inf")}
