"""The stream machine gives the bytes of the functional model where all activations are constants."""

import numpy as np
import pytest
from generators.programs import IMAGE_BYTES, Program, random_config, random_program

from tests.programs import test_cases, test_depthwise, test_feedback, test_gather, test_narrow_weights
from tests.programs.model import Model
from vdla.hw.spec import codec, isa, numerics
from vdla.hw.spec.config import AcceleratorConfig
from vdla.hw.spec.presets import DEFAULT
from vdla.hw.spec.vocabulary import MemoryType
from vdla.prove.accumulators import Accumulators
from vdla.prove.domain import Domain
from vdla.prove.errors import ProofError
from vdla.prove.machine import StreamMachine, require_covered
from vdla.prove.memory import Dram, Lanes, constant_bytes, spare_bytes
from vdla.sim.decoded import decode_stream
from vdla.sim.interleave import interleave


def run(program: Program) -> np.ndarray:
    """Return DRAM after a program, all of whose activations are constants: DRAM as a whole."""
    config, domain = program.config, Domain(1)
    alignment = max(config.element_bytes(memory) for memory in MemoryType)
    dram = Dram(domain, np.zeros(0, np.uint8), 0, len(program.image), alignment, spare_bytes(config))
    values = program.image.view(np.int8)[:, None]
    dram.write(0, Lanes.of_constants(domain, values))
    stream = np.frombuffer(program.stream, np.uint8).reshape(-1, config.instruction_bytes)
    decoded = decode_stream(stream, config)
    StreamMachine(config, domain, dram).run(decoded, interleave(decoded).order.tolist())
    contents = constant_bytes(domain, dram.elements[: len(program.image)])
    assert contents is not None
    return contents


def is_covered(config: AcceleratorConfig) -> bool:
    """Whether proofs cover a configuration: values of 8 bits, accumulators of 32."""
    try:
        require_covered(config)
    except ProofError:
        return False
    return True


def expected(program: Program) -> np.ndarray:
    return np.frombuffer(Model(program.config, bytearray(program.image)).run(program.instructions), np.uint8)


@pytest.mark.parametrize("name", test_cases.CASES)
def test_programs_of_constants_give_the_bytes_of_the_model(name):
    program = test_cases.program_of(test_cases.CASES[name])
    np.testing.assert_array_equal(run(program), expected(program))


@pytest.mark.parametrize("name", test_depthwise.CASES)
def test_depthwise_gives_the_bytes_of_the_model(name):
    for config in test_depthwise.CONFIGS:
        if is_covered(config):
            program = test_depthwise.program_of(name, config)
            np.testing.assert_array_equal(run(program), expected(program), err_msg=config.name)


@pytest.mark.parametrize("name", test_gather.CASES)
def test_gather_gives_the_bytes_of_the_model(name):
    for config in test_gather.CONFIGS:
        if is_covered(config):
            program = test_gather.program_of(config, test_gather.CASES[name])
            np.testing.assert_array_equal(run(program), expected(program), err_msg=config.name)


@pytest.mark.parametrize("name", test_narrow_weights.CASES)
def test_narrow_weights_that_are_constants_give_the_bytes_of_the_model(name):
    """Either DRAM as a whole is activations that are constants, or only from the results on."""
    for config in filter(is_covered, test_narrow_weights.CONFIGS):
        for case in test_narrow_weights.widths(config, test_narrow_weights.CASES[name]):
            program = test_narrow_weights.program_of(config, case)
            np.testing.assert_array_equal(run(program), expected(program), err_msg=config.name)
            check_run(config, program.image, test_narrow_weights.RESULT, list(program.instructions))


@pytest.mark.parametrize(("halvings", "bits"), [(1, 4), (2, 2)])
def test_narrow_weights_that_vary_are_refused(halvings, bits):
    config, domain = test_narrow_weights.NARROW, Domain(1)
    word = codec.encode(test_narrow_weights.load(halvings, x_size=3), config)
    stream = np.frombuffer(word.to_bytes(config.instruction_bytes, "little"), np.uint8)
    dram = Dram(domain, np.zeros(0, np.uint8), 0, IMAGE_BYTES, 256, spare_bytes(config))
    with pytest.raises(ProofError, match=f"it reads activations as weights of {bits} bits"):
        StreamMachine(config, domain, dram).run(decode_stream(stream, config), range(1))


@pytest.mark.parametrize("config", test_feedback.CONFIGS, ids=test_feedback.IDS)
def test_layers_chained_through_inputs_give_the_bytes_of_the_model(config):
    program = test_feedback.program_of(config, True)
    np.testing.assert_array_equal(run(program), expected(program))


def test_random_programs_give_the_bytes_of_the_model():
    checked = 0
    for seed in range(60):
        config = random_config(seed)
        if is_covered(config):
            program = random_program(config, seed, 25)
            np.testing.assert_array_equal(run(program), expected(program), err_msg=str(seed))
            checked += 1
    assert checked >= 10


def test_an_accumulator_that_is_written_anew_forgets_the_members_of_its_maximum():
    domain = Domain(1)
    accumulators = Accumulators(domain, 4, 2)
    place = np.array([1])
    member = domain.constants(np.full((1, 1, 2), 9))
    accumulators.extreme(place, domain.maximum, member)
    accumulators.load_words(place, np.full((1, 2), -5))
    accumulators.extreme(place, domain.maximum, domain.constants(np.full((1, 1, 2), -7)))
    assert accumulators.constants(place).tolist() == [[-5, -5]]
    accumulators.extreme(place, domain.minimum, domain.constants(np.array([[[-6, 3]], [[4, -9]]])))
    accumulators.extreme(place, domain.maximum, member)
    accumulators.add(place, domain.values(domain.constants(np.array([[1, 2]]))))
    assert accumulators.constants(np.arange(3)).tolist() == [[0, 0], [10, 11], [0, 0]]


def test_bytes_that_nothing_has_written_are_unknown_and_differ_by_address():
    domain = Domain(1)
    dram = Dram(domain, np.zeros(0, np.uint8), 64, 128, 16)
    dram.write(70, Lanes.of_constants(domain, np.full((2, 1), 5)))
    addresses = np.array([[70, 71, 72, 73]])
    first, second = dram.read(addresses), dram.read(addresses)
    assert (first.elements == second.elements).all()
    assert (first.residues == second.residues).all()
    assert (first.elements["kind"] != 0).tolist() == [[False, False, True, True]]
    assert first.elements[0, 2] != first.elements[0, 3]
    np.testing.assert_array_equal(first.residues, domain.values(first.elements).residues)


def image_with_parameters(config: AcceleratorConfig) -> np.ndarray:
    """Return DRAM, uint8[IMAGE_BYTES], that begins with 16 elements of ACC: the parameters of an addition and
    of a requantisation, and small sums."""
    image = np.random.default_rng(6).integers(0, 256, IMAGE_BYTES, dtype=np.uint8)
    lanes = config.values(MemoryType.ACC)
    accumulators = image[: 16 * lanes * 4].view("<i4").reshape(16, lanes)
    accumulators[:4] = np.reshape(numerics.residual_parameters(5, (3, -2), 2, 1, -128, 127), (4, 1))
    accumulators[4:8] = np.reshape(numerics.requantise_parameters(7, 3, 4, 1, -100, 127), (4, 1))
    accumulators[8:] %= 50
    return image


def check_run(config: AcceleratorConfig, image: np.ndarray, low: int, instructions: list) -> None:
    """Run instructions with the bytes from `low` on as known activations, and expect the model's result."""
    model = Model(config, bytearray(image)).run([*instructions, isa.Finish()])
    expected = np.frombuffer(model, np.uint8)[low:]
    words = b"".join(
        codec.encode(each, config).to_bytes(config.instruction_bytes, "little") for each in instructions
    )
    stream = np.frombuffer(words, np.uint8).reshape(-1, config.instruction_bytes)
    domain = Domain(1)
    dram = Dram(domain, image, low, IMAGE_BYTES, 256, spare_bytes(config))
    dram.write(low, Lanes.of_constants(domain, image[low:].view(np.int8)[:, None]))
    StreamMachine(config, domain, dram).run(decode_stream(stream, config), range(len(instructions)))
    actual = constant_bytes(domain, dram.elements[: len(expected)])
    np.testing.assert_array_equal(actual, expected)


def block(form: type[isa.Instruction], memory: MemoryType, size: int, **fields: int) -> isa.Instruction:
    """Return a LOAD or STORE of a row of `size` elements."""
    return form(memory_type=memory, y_size=1, x_size=size, x_stride=size, **fields)


PLACE = IMAGE_BYTES * 3 // 4 // DEFAULT.element_bytes(MemoryType.OUT)


@pytest.mark.parametrize("low", [0, IMAGE_BYTES // 2], ids=["activations", "constants"])
def test_a_store_adds_the_residuals_that_were_loaded_when_it_ran(low):
    instructions = [block(isa.Load, MemoryType.ACC, 16)]
    for padding in (5, 9):
        instructions += [
            isa.Load(memory_type=MemoryType.RES, sram_base=padding, pad_value=1),
            block(isa.Load, MemoryType.RES, 1, dram_base=200 + padding, y_pad_0=1, pad_value=1),
            block(
                isa.Store,
                MemoryType.OUT,
                2,
                sram_base=12,
                dram_base=PLACE + padding,
                parameters=2,
                residual=1,
            ),
        ]
    check_run(DEFAULT, image_with_parameters(DEFAULT), low, instructions)


@pytest.mark.parametrize("between", [{}, {"parameters": 2}, {"parameters": 2, "residual": 1}], ids=str)
def test_a_store_adds_residuals_whose_bytes_a_store_before_it_has_written(between):
    instructions = [
        block(isa.Load, MemoryType.ACC, 16),
        block(isa.Load, MemoryType.RES, 2, dram_base=PLACE),
        block(isa.Store, MemoryType.OUT, 2, sram_base=8, dram_base=PLACE, **between),
        block(isa.Store, MemoryType.OUT, 2, sram_base=12, dram_base=PLACE + 9, parameters=2, residual=1),
    ]
    check_run(DEFAULT, image_with_parameters(DEFAULT), 0, instructions)
