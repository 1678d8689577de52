"""Reasons why operators run on the host: what an operator has, then what the accelerator takes."""

SEPARATOR = "; "


def reason_of(trait: str, taken: str) -> str:
    """Return the reason of what an operator has, and of what is taken instead."""
    return f"{trait}{SEPARATOR}{taken}"


def kind_of(reason: str) -> str:
    """Return what operators with like reasons have in common: what is taken instead; a reason without this
    part is of its own kind."""
    return reason.partition(SEPARATOR)[2] or reason
