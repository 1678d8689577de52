"""The formats: seeds of each, how a seed is damaged, and the commands that meet it."""

import hashlib
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import onnx
from generators.programs import random_program

from fuzzing import environment, logs, records, samples, sweeps
from fuzzing.archives import changed_members, packed, saved, unpacked
from fuzzing.budget import fits_module, fits_network, fits_vector
from fuzzing.messages import changed_message
from fuzzing.networks import NETWORKS, QUANTISED, images
from fuzzing.steps import Format, Step
from fuzzing.values import changed_bytes, changed_tree, text_of
from vdla.compiler.network.compile import compile_network
from vdla.hw.spec.assembly import format_program
from vdla.hw.spec.files import to_toml
from vdla.hw.spec.presets import DEFAULT, PRESETS, SMALL, TINY, VTA
from vdla.hw.spec.target import Target
from vdla.hw.spec.vta_json import to_vta_json
from vdla.runtime.module.file import HEADER, INTEGERS, MAGIC, MANIFEST, TARGET, VERSION, to_bytes

VECTORS = Path(__file__).parents[2] / "tests" / "vectors" / "vta"
SMALL_VECTORS = ("alu_imm4_b8", "gemm_vt2_b8", "padacc8_b8", "padacc_a_d", "gemm_serial_d", "fuzz1_b8")
MANIFEST_SHARE, ARRAY_SHARE, GRAPH_SHARE = 0.6, 0.5, 0.3
FLOAT_SHARE, WHOLE_SHARE, NUDGED_SHARE = 0.15, 0.15, 0.35
REPORT_LINES = 8  # in which a deadlock is explained


# Configurations


def configuration(rng: Random) -> tuple[bytes, str]:
    """Return a configuration in TOML, or in VTA's JSON."""
    if rng.random() < 0.3:
        return text_of(
            changed_tree(json.loads(to_vta_json(VTA)), rng)
        ) if rng.random() < 0.7 else changed_bytes(to_vta_json(VTA).encode(), rng), "json"
    text = to_toml(PRESETS[rng.choice(list(PRESETS))])
    return _changed_lines(text.encode(), rng), "toml"


def _changed_lines(data: bytes, rng: Random) -> bytes:
    """Return lines of "key = value" with values replaced, or bytes changed."""
    if rng.random() < 0.5:
        return changed_bytes(data, rng)
    lines = data.split(b"\n")
    for place in rng.sample(range(len(lines)), rng.choice((1, 1, 2, 5))):
        key, _, value = lines[place].partition(b"= ")
        tree = changed_tree([json.loads(value)] if value else [], rng)
        lines[place] = key + b"= " + text_of(tree[0] if tree and isinstance(tree, list) else tree)
    return b"\n".join(lines)


# Assembly


@cache
def programs() -> tuple[bytes, ...]:
    """Return random programs as assembly."""
    random_programs = (random_program(DEFAULT, seed, 12) for seed in range(6))
    return tuple(format_program(program.instructions).encode() for program in random_programs)


UOPS = b"UOP(dst=1, src=2, wgt=3)\nUOP()\nUOP(dst=5)\n"
NUMBERS = (
    b"0",
    b"1",
    b"2",
    b"7",
    b"15",
    b"16",
    b"255",
    b"1023",
    b"65535",
    b"65536",
    b"-1",
    b"+3",
    b"0x7f",
    b"0b1",
    b"1_000",
    b"(1)",
    b"1.0",
    b"--1",
    b"INP",
    b"MAX",
    b"None",
    b"0x" + b"f" * 3000,
    b"1" * 3000,
    b"x=1",
    b"",
)


def assembly(rng: Random) -> tuple[bytes, str]:
    """Return assembly: numbers replaced, lines left out or put elsewhere, or bytes changed."""
    data = rng.choice((*programs(), UOPS))
    if rng.random() < 0.35:
        return changed_bytes(data, rng), "asm"
    for _ in range(rng.choice((1, 1, 2, 4))):
        places = [match.span(1) for match in re.finditer(rb"=(\w+)", data)]
        begin, end = rng.choice(places) if places else (0, 0)
        data = data[:begin] + rng.choice(NUMBERS) + data[end:]
    lines = data.split(b"\n")
    rng.shuffle(lines)
    return b"\n".join(lines[: rng.randrange(len(lines) + 1)]), "asm"


# Vectors and modules


@cache
def vectors() -> tuple[dict[str, bytes], ...]:
    """Return the members of conformance vectors."""
    return tuple(unpacked((VECTORS / f"{name}.npz").read_bytes()) for name in SMALL_VECTORS)


def vector(rng: Random) -> tuple[bytes, str]:
    """Return a conformance vector."""
    members = rng.choice(vectors())
    if rng.random() < 0.25:
        return packed(_with_other_meta(members, rng), rng), "npz"
    return packed(changed_members(members, rng) if rng.random() < 0.9 else members, rng), "npz"


def _with_other_meta(members: dict[str, bytes], rng: Random) -> dict[str, bytes]:
    head = members["meta.npy"].index(b"\n") + 1
    meta = changed_tree(json.loads(members["meta.npy"][head:]), rng)
    return {**members, "meta.npy": saved(np.frombuffer(text_of(meta), np.uint8))}


@cache
def modules() -> tuple[dict[str, bytes], ...]:
    """Return the members of compiled networks."""
    plans = (
        compile_network(network().SerializeToString(), Target(config)).plan
        for network in QUANTISED
        for config in (TINY, SMALL)
    )
    return tuple(unpacked(to_bytes(plan)[HEADER.size :]) for plan in plans)


def module(rng: Random) -> tuple[bytes, str]:
    """Return a module file whose digest matches its contents, most often."""
    members = dict(rng.choice(modules()))
    if rng.random() < MANIFEST_SHARE:
        members[MANIFEST] = text_of(changed_tree(json.loads(members[MANIFEST]), rng))
    if rng.random() < ARRAY_SHARE:
        members = changed_members(members, rng)
    if rng.random() < 0.05:
        members[MANIFEST] = changed_bytes(members[MANIFEST], rng)
    if rng.random() < GRAPH_SHARE:
        name = rng.choice((INTEGERS, TARGET))
        members[name] = _changed_text(members[name], rng)
    data = sealed(packed(members, rng))
    return (changed_bytes(data, rng) if rng.random() < 0.03 else data), "vdla"


def _changed_text(text: bytes, rng: Random) -> bytes:
    """Return the text of a graph with a word of it in the place of another, or with other bytes."""
    words = re.split(rb"(\W)", text)
    if rng.random() < 0.3:
        return changed_bytes(text, rng)
    for _ in range(rng.choice((1, 1, 2, 4))):
        words[rng.randrange(len(words))] = rng.choice((*words, b"-1", b"0", b"1e9", b"100000"))
    return b"".join(words)


def sealed(payload: bytes) -> bytes:
    """Return a module file of an archive."""
    return HEADER.pack(MAGIC, VERSION, len(payload), hashlib.sha256(payload).digest()) + payload


# Networks


@cache
def networks() -> tuple[onnx.ModelProto, ...]:
    """Return models."""
    return tuple(make() for make in NETWORKS)


def network(rng: Random) -> tuple[bytes, str]:
    """Return an ONNX model."""
    model = networks()[-1] if rng.random() < FLOAT_SHARE else rng.choice(networks()[:-1])
    if rng.random() < 0.1:
        return changed_bytes(model.SerializeToString(), rng), "onnx"
    changed = type(model)()
    changed.CopyFrom(model)
    if rng.random() < NUDGED_SHARE:
        _nudge(changed.graph, rng)
    else:
        changed_message(changed if rng.random() < WHOLE_SHARE else changed.graph, rng)
    if rng.random() < 0.1:
        _set_external(changed, rng)
    return changed.SerializeToString(), "onnx"


def _nudge(graph: onnx.GraphProto, rng: Random) -> None:
    """Change small numbers, after which a model may well be valid: attributes, extents of inputs, inputs of
    nodes."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        node = rng.choice(graph.node)
        lists = [attribute.ints for attribute in node.attribute if attribute.ints]
        extents = graph.input[0].type.tensor_type.shape.dim
        match rng.randrange(4):
            case 0 if node.input:
                node.input[rng.randrange(len(node.input))] = rng.choice(rng.choice(graph.node).output)
            case 1:
                rng.choice(extents).dim_value = rng.choice((1, 2, 3, 5, 8, 16, 100))
            case _ if lists:
                values = rng.choice(lists)
                values[rng.randrange(len(values))] = rng.choice((-2, -1, 0, 1, 2, 3, 5, 9))


LOCATIONS = (
    "w.bin",
    "/etc/hostname",
    "../w.bin",
    "",
    ".",
    "a\0b",
    "w" * 400,
    "w/" * 3000,
    "input.onnx",
    "/dev/zero",
    "./input.onnx",
)


def _set_external(model: onnx.ModelProto, rng: Random) -> None:
    """Let a weight stand in a file, which may be none."""
    if not model.graph.initializer:
        return
    tensor = rng.choice(model.graph.initializer)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, values in (
        ("location", LOCATIONS),
        ("offset", ("0", "-1", "7", "x", "9" * 30)),
        ("length", ("0", "4", "-1", "9" * 30, "")),
    ):
        if rng.random() < 0.7:
            tensor.external_data.add(key=key, value=rng.choice(values))


def _vector_steps(rng: Random) -> Iterator[Step]:
    yield Step(("disasm", "FILE"))
    yield Step(("check", "FILE"), fits_vector)
    yield Step(("replay", "FILE"), fits_vector)


def _assembly_steps(rng: Random) -> Iterator[Step]:
    which = ("--uops",) if rng.random() < 0.15 else ()
    yield Step(("asm", "FILE", "-o", "OUT", *which), shows=3)
    yield Step(("disasm", "OUT", *which))


FORMATS: dict[str, Format] = {
    "toml": Format(configuration, lambda rng: (Step(("config", "FILE")), Step(("config", "FILE", "--json")))),
    "asm": Format(assembly, _assembly_steps),
    "npz": Format(vector, _vector_steps),
    "onnx": Format(
        network,
        lambda rng: (
            Step(("compile", "FILE", "-o", "OUT.vdla", "--config", "tiny"), fits_network, shows=2000),
            Step(("run", "OUT.vdla"), fits_module, REPORT_LINES),
        ),
    ),
    "log": Format(logs.log, lambda rng: tuple(logs.steps(rng))),
    "vdla": Format(
        module,
        lambda rng: (
            Step(("inspect", "FILE")),
            Step(("prove", "FILE"), fits_module),
            Step(("run", "FILE"), fits_module, REPORT_LINES),
        ),
    ),
    "samples": Format(samples.sample, samples.steps),
    "sweep": Format(sweeps.specification, lambda rng: tuple(sweeps.specification_steps(rng))),
    "identity": Format(sweeps.identity, lambda rng: tuple(sweeps.identity_steps(rng)), sweeps.put_identity),
    "journal": Format(sweeps.journal, lambda rng: tuple(sweeps.journal_steps(rng)), sweeps.put_journal),
    "record": Format(records.record, lambda rng: tuple(records.steps(rng))),
    "settings": Format(environment.settings, lambda rng: tuple(environment.steps(rng)), environment.put),
}


@cache
def constants() -> dict[str, bytes]:
    """Return the files beside every input, by name."""
    model = images().SerializeToString()
    return {"NET.onnx": model, "NET.vdla": to_bytes(compile_network(model, Target(TINY)).plan)}
