"""Modules with states: a run takes what the run before left, on whatever device it runs."""

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import vdla
from tests.cli.commands import done, refused
from tests.decoder import CACHED, decoder
from vdla.hw.spec.presets import TINY
from vdla.runtime.module.plan import ModuleError

STATES = {"past_*": "present_*"}
TOKENS = np.random.default_rng(1).integers(0, 8, (24, 1, 1))
CACHE = (1, 2, 4, 4)


@pytest.fixture(scope="module")
def compiled():
    return vdla.compile(decoder(), TINY, samples={"token": TOKENS}, states=STATES, tuning="none")


@pytest.fixture
def module(compiled):
    """Return a module before its first run."""
    compiled.reset()
    return compiled


def one_by_one(module, tokens, device="functional") -> np.ndarray:
    """Return the outputs of a run for each token."""
    return np.concatenate([module.run(token=token, device=device).outputs["logits"] for token in tokens])


def test_a_run_takes_and_makes_no_states(module):
    assert list(module.inputs) == ["token"]
    assert list(module.outputs) == ["logits"]
    assert list(module.run(token=TOKENS[0]).outputs) == ["logits"]
    assert {name: module.plan.inputs[name].dtype for name in module.plan.states} == {
        "past_k": "int8",
        "past_v": "int8",
    }


def test_runs_follow_the_float_network(module):
    """Signal to noise stays above 20 dB over all runs, while each takes the rounded states of the last."""
    reference, states = (
        ReferenceEvaluator(decoder()),
        {f"past_{part}": np.zeros(CACHE, np.float32) for part in CACHED},
    )
    signal = noise = 0.0
    for token in TOKENS:
        logits, *caches = reference.run(None, {"token": token, **states})
        states = {f"past_{part}": cache for part, cache in zip(CACHED, caches, strict=True)}
        signal += np.square(logits).sum()
        noise += np.square(logits - module.run(token=token).outputs["logits"]).sum()
    assert 10 * np.log10(signal / noise) > 20
    for name, cache in states.items():
        scale = module.plan.states[name].scale
        np.testing.assert_allclose(module.states[name], cache, rtol=0, atol=3 * scale)


def test_a_sequence_in_one_call_is_as_one_call_for_each(module):
    expected = one_by_one(module, TOKENS)
    module.reset()
    np.testing.assert_array_equal(
        module.run({"token": TOKENS}).outputs["logits"].reshape(expected.shape), expected
    )


def test_another_device_goes_on_where_the_first_stopped(module):
    expected = one_by_one(module, TOKENS[:9])
    module.reset()
    parts = [one_by_one(module, TOKENS[begin : begin + 3], device) for begin, device in enumerate_devices()]
    np.testing.assert_array_equal(np.concatenate(parts), expected)


def enumerate_devices() -> list[tuple[int, str]]:
    return [(0, "functional"), (3, "cycle"), (6, "functional")]


def test_states_are_set_to_numbers_and_to_zero(module):
    first = module.run(token=TOKENS[0]).outputs["logits"]
    kept = module.states
    second = module.run(token=TOKENS[1]).outputs["logits"]
    module.reset(kept)
    np.testing.assert_array_equal(module.run(token=TOKENS[1]).outputs["logits"], second)
    module.reset()
    assert not any(state.any() for state in module.states.values())
    np.testing.assert_array_equal(module.run(token=TOKENS[0]).outputs["logits"], first)


def test_a_state_takes_the_nearest_numbers_that_it_can_hold(module):
    scale = module.plan.states["past_k"].scale
    module.reset(
        {"past_k": np.full(CACHE, 1e9), "past_v": np.full(CACHE, 0.4 * module.plan.states["past_v"].scale)}
    )
    assert np.allclose(module.states["past_k"], 127 * scale)
    assert not module.states["past_v"].any()


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({"cache": 0}, "cache is no state of decoder; its states are past_k, past_v"),
        (
            {"past_k": np.zeros(3)},
            r"state past_k takes finite numbers as int8\[1, 2, 4, 4\], and was given float64\[3\]",
        ),
        ({"past_v": np.full(CACHE, np.nan)}, "state past_v takes finite numbers"),
    ],
)
def test_states_that_cannot_be_set_are_refused(module, states, message):
    before = module.states
    with pytest.raises(ModuleError, match=f"^{message}"):
        module.reset(states)
    np.testing.assert_array_equal(module.states["past_k"], before["past_k"])


def test_a_run_that_fails_leaves_the_states(module):
    module.run(token=TOKENS[0])
    before = module.states
    with pytest.raises(ModuleError):
        module.run({"token": [TOKENS[1], np.full((1, 1), 99)]})
    np.testing.assert_array_equal(module.states["past_k"], before["past_k"])


def test_a_saved_module_has_its_states(module, tmp_path):
    expected = one_by_one(module, TOKENS[:3])
    module.save(tmp_path / "net.vdla")
    np.testing.assert_array_equal(one_by_one(vdla.load(tmp_path / "net.vdla"), TOKENS[:3]), expected)


def test_states_that_stay_in_float_are_kept_too():
    module = vdla.compile(
        decoder(), TINY, samples={"token": TOKENS}, states=STATES, quality="fast", float_layers=("k_longer",)
    )
    one_by_one(module, TOKENS[:3])
    assert module.plan.inputs["past_k"].dtype == "float32"
    assert module.states["past_k"][:, :, -3:].any(axis=(0, 1, 3)).all()


def test_streams_of_a_module_with_states_are_proved(module):
    assert module.prove(seed=1).proved


def test_commands_run_a_sequence(module, tmp_path):
    (tmp_path / "net.onnx").write_bytes(decoder().SerializeToString())
    np.savez(tmp_path / "tokens.npz", token=TOKENS)
    arguments = ("--config", "tiny", "--calibrate", tmp_path / "tokens.npz", "--tuned", "none")
    states = ("--state", "past_*=present_*")
    printed = done("compile", tmp_path / "net.onnx", "-o", tmp_path / "net.vdla", *arguments, *states).stdout
    assert "takes token: int64[1, 1]; makes logits: float32[1, 1, 8]\n" in printed
    assert "keeps from run to run past_k: int8[1, 2, 4, 4], past_v: int8[1, 2, 4, 4]\n" in printed
    assert (
        "state   past_k: int8[1, 2, 4, 4], takes present_k, (value - 0) * 0.0"
        in done("inspect", tmp_path / "net.vdla").stdout
    )
    done("run", tmp_path / "net.vdla", "--input", tmp_path / "tokens.npz", "--output", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as outputs:
        np.testing.assert_array_equal(outputs["logits"].reshape(-1, 1, 8), one_by_one(module, TOKENS))
    assert (
        refused("compile", tmp_path / "net.onnx", "-o", tmp_path / "x.vdla", "--state", "past_k")
        == "--state past_k is not of the form PAST=PRESENT"
    )


def test_weights_of_few_bits_save_time_with_an_extension(tmp_path):
    (tmp_path / "net.onnx").write_bytes(decoder().SerializeToString())
    np.savez(tmp_path / "tokens.npz", token=TOKENS)
    arguments = (
        "compile",
        tmp_path / "net.onnx",
        "-o",
        tmp_path / "net.vdla",
        "--config",
        "tiny",
        "--tuned",
        "none",
    )
    arguments += ("--calibrate", tmp_path / "tokens.npz", "--state", "past_*=present_*", "--weight-bits", 4)
    assert (
        "--weight-bits 4 saves no time on tiny: it loads weights of 8 bits; --set extensions=+narrow_weights "
        "lets it load fewer\n"
    ) in done(*arguments).stderr
    assert "saves no time" not in done(*arguments, "--set", "extensions=+narrow_weights").stderr
