"""Reasons and their kinds."""

from vdla.runtime.module.reasons import kind_of, reason_of


def test_reasons_of_one_kind_say_what_is_taken_instead():
    reasons = [reason_of(f"Split with {letter}", "the accelerator takes blocks; an image") for letter in "ab"]
    assert reasons[0] == "Split with a; the accelerator takes blocks; an image"
    assert {kind_of(reason) for reason in reasons} == {"the accelerator takes blocks; an image"}


def test_a_reason_without_that_is_of_its_own_kind():
    assert kind_of("the accelerator has no Softmax") == "the accelerator has no Softmax"
