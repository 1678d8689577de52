"""States of a model: which inputs take which outputs, and samples that leave them out."""

import re

import numpy as np
import pytest

from tests.decoder import decoder
from vdla.compiler.graph.nodes import GraphError
from vdla.compiler.graph.onnx.inputs import matched
from vdla.compiler.graph.onnx.load import load, load_with_samples
from vdla.compiler.graph.source import Section
from vdla.runtime.module.plan import State
from vdla.runtime.samples import InputError
from vdla.runtime.samples.given import given_of

INPUTS, OUTPUTS = ("token", "past.0.k", "past.1.k"), ("logits", "present.0.k", "present.1.k")
MATCHED = {
    (("past.*", "present.*"),): {"past.0.k": "present.0.k", "past.1.k": "present.1.k"},
    (("past.*.k", "present.*.k"),): {"past.0.k": "present.0.k", "past.1.k": "present.1.k"},
    (("past.1.k", "present.0.k"),): {"past.1.k": "present.0.k"},
    (("past.0.k", "present.0.k"), ("past.1.k", "logits")): {"past.0.k": "present.0.k", "past.1.k": "logits"},
    (): {},
}
REFUSED = {
    "state past=present: no input is called past; there are token, past.0.k, past.1.k": (
        ("past", "present"),
    ),
    "state past.0.k takes present.7.k, which is no output; there are logits, present.0.k, present.1.k": (
        ("past.0.k", "present.7.k"),
    ),
    "output present.0.k is taken by several states; name it once": (
        ("past.0.k", "present.0.k"),
        ("past.1.k", "present.0.k"),
    ),
    "state past.*=present: write the name of an input and of an output, either without * or with one * in "
    "each, which stands for the same text in both": (("past.*", "present"),),
    "state *.*=*.*: write the name of an input and of an output, either without * or with one * in each, which "
    "stands for the same text in both": (("*.*", "*.*"),),
}
STATES = Section(states=(("past_*", "present_*"),))
TOKENS = np.arange(6).reshape(6, 1, 1)


@pytest.mark.parametrize("states", MATCHED)
def test_a_star_stands_for_the_same_text_in_both_names(states):
    assert matched(states, INPUTS, OUTPUTS) == MATCHED[states]


@pytest.mark.parametrize("message", REFUSED)
def test_states_that_the_model_does_not_have_are_refused(message):
    with pytest.raises(GraphError, match=f"^{re.escape(message)}$"):
        matched(REFUSED[message], INPUTS, OUTPUTS)


def test_a_state_keeps_its_type():
    message = (
        "state past_k is float32[1, 2, 4, 4], and takes logits, which is float32[1, 1, 8]; both must have"
    )
    with pytest.raises(GraphError, match=f"^{re.escape(message)}"):
        load(decoder(), section=Section(states=(("past_k", "logits"),)))


def test_a_graph_knows_its_states():
    graph = load(decoder(), section=STATES)
    assert graph.states == {"past_k": State("present_k"), "past_v": State("present_v")}


def test_samples_without_states_are_one_sequence():
    loaded = load_with_samples(decoder(), given_of({"token": TOKENS}), None, STATES)
    first, *_, last = loaded.samples
    assert not first["past_k"].any()
    assert [np.any(last["past_k"], axis=(0, 1, 3)).tolist()] == [[True] * 4]
    before, now = (sample["past_v"] for sample in loaded.samples[-2:])
    np.testing.assert_array_equal(before[:, :, 1:], now[:, :, :-1])


def test_samples_may_bring_their_states():
    states = {f"past_{name}": np.ones((6, 1, 2, 4, 4), np.float32) for name in "kv"}
    loaded = load_with_samples(decoder(), given_of({"token": TOKENS, **states}), None, STATES)
    assert all(sample["past_k"].all() for sample in loaded.samples)


def test_samples_bring_all_states_or_none():
    states = {"past_k": np.ones((6, 1, 2, 4, 4), np.float32)}
    with pytest.raises(InputError, match="it was given token, past_k"):
        load_with_samples(decoder(), given_of({"token": TOKENS, **states}), None, STATES)
