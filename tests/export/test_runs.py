"""Exported C, compiled with sanitizers, gives the bytes of the kit's run, in as many cycles."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from exported.board import NAME, Answer, Program, build, run

import vdla
from tests.compiler.network.graphs import random_inputs
from tests.export.graphs import MOBILE, exported, graph_of
from vdla.hw.spec import encoding, isa
from vdla.runtime.devices.registry import device_of
from vdla.runtime.module import file
from vdla.runtime.module.plan import Plan
from vdla.runtime.session.session import Outcome, Session

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits"
FEW = 12
SEEDS = 3
GRAPHS = (MOBILE, "several ends", "with the host between", "views", "joined", "gathered")
HEAP = ("malloc", "calloc", "realloc", "free")


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> tuple[Plan, Path, np.ndarray, np.ndarray]:
    """Return the module of the digits, its program, and the images and labels held out."""
    folder = tmp_path_factory.mktemp("digits")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLE)
        training, test = importlib.import_module("samples").split()
    vdla.compile(EXAMPLE / "digits.onnx", samples={"image": training.images[:32, None]}).save(
        folder / "digits.vdla"
    )
    plan = file.load(folder / "digits.vdla")
    return plan, build(plan, folder / "c"), test.images, test.labels


def session_of(plan: Plan) -> Session:
    """Return the module in the kit's cycle device."""
    return Session(device_of("cycle", plan.target, plan.dram_bytes), plan)


def require_same(answer: Answer, expected: Outcome) -> None:
    """Compare a run of C with the kit's: bytes, and cycles."""
    assert (answer.code, answer.cycles) == ("VDLA_OK", expected.cycles)
    for name, output in answer.outputs.items():
        assert output.tobytes() == expected.outputs[name].tobytes(), name


def compare_digits(digits, count: int | None) -> float:
    """Compare runs of digits with the kit's; return the share of digits that are recognised."""
    plan, binary, images, labels = digits
    session, right = session_of(plan), 0
    with Program(plan, binary, "cycle") as program:
        assert program.init().code == "VDLA_OK"
        for image, label in zip(images[:count], labels[:count], strict=True):
            inputs = {"image": image[None]}
            answer, expected = program.run(inputs), session.run(inputs)
            assert answer.outputs["scores"].tobytes() == expected.outputs["scores"].tobytes()
            assert answer.cycles == expected.cycles
            right += int(answer.outputs["scores"].argmax() == label)
        assert program.close() == ""
    return right / len(images[:count])


def test_digits_have_the_bytes_of_the_kits_run(digits):
    assert compare_digits(digits, FEW) >= 0.9


@pytest.mark.slow
def test_all_digits_have_the_bytes_of_the_kits_run(digits):
    assert compare_digits(digits, None) >= 0.9


@pytest.mark.parametrize("title", GRAPHS)
def test_a_network_has_the_bytes_of_the_kits_run(title, tmp_path):
    assert compare_graph(title, tmp_path) == SEEDS


def compare_graph(title: str, folder: Path, *, batched: bool = False) -> int:
    """Compare runs of a network with the kit's; return how many runs are equal."""
    plan = exported(title, batched)
    session, equal = session_of(plan), 0
    with Program(plan, build(plan, folder), "cycle") as program:
        assert program.init().code == "VDLA_OK"
        for seed in range(SEEDS):
            inputs = random_inputs(graph_of(title), seed)
            require_same(program.run(inputs), session.run(inputs))
            equal += 1
        assert program.close() == ""
    return equal


def test_an_accelerator_with_batches_gets_its_layout(tmp_path):
    assert compare_graph("batches", tmp_path, batched=True) == SEEDS


def test_initialising_twice_relocates_once(digits):
    plan, binary, images, _ = digits
    expected = session_of(plan).run({"image": images[:1]}).outputs["scores"]
    with Program(plan, binary) as program:
        for _ in range(2):
            assert program.init().code == "VDLA_OK"
        assert program.run({"image": images[:1]}).outputs["scores"].tobytes() == expected.tobytes()


def test_an_address_that_does_not_fit_its_instruction_is_refused(digits):
    plan, binary, _, _ = digits
    assert isa.Opcode.GATHER in {
        int(word) & encoding.OPCODE_FIELD.high for word in plan.streams["launch1"].words[:, 0]
    }
    beyond = 1 << 32  # bytes, which GATHER counts; the bus reaches them
    with Program(plan, binary, bases=(beyond, 1 << 20)) as program:
        assert program.init().code == "VDLA_ERROR_ADDRESS"


def test_no_object_uses_the_heap(digits):
    _, binary, _, _ = digits
    symbols = run(["nm", binary.parent / f"lib{NAME}.a"]).split()
    assert f"{NAME}_run" in symbols
    objects = [path for path in binary.parent.glob("*.o") if path.name not in ("shim.o", "main.o")]
    undefined = run(["nm", "-u", *objects]).split()
    assert "vdla_run" in undefined
    assert not set(HEAP) & set(undefined)
