"""What the summary of a network says about its quantisation."""

from collections.abc import Iterator, Sequence

from vdla.runtime.module.plan import LOST_DB, Fidelity, OutputNoise

MOST_OUTPUTS = 4
MOST_LAYERS = 4


def accuracy_rows(fidelity: Fidelity | None) -> Iterator[str]:
    """Yield the lines of a summary: the signal to noise of each output, and layers in float.

    Args:
        fidelity: None where the network was not quantised by the kit.
    """
    if fidelity is None:
        yield "not judged: the file is quantised already, so there is no float network to compare it with"
        return
    shown = sorted(fidelity.outputs, key=_severity)[:MOST_OUTPUTS]
    width = max((len(one.output) for one in shown), default=0)
    for one in shown:
        yield f"{one.output:{width}}  {_amount(one):>8}  {_verdict(one)}".rstrip()
    if len(fidelity.outputs) > len(shown):
        yield f"and {len(fidelity.outputs) - len(shown)} outputs with less noise"
    samples = f"{fidelity.samples} sample{'s' * (fidelity.samples != 1)}"
    yield f"signal to quantisation noise of the outputs, on {samples}"
    yield from _layers(fidelity)


def decibels(value: float | None) -> str:
    """Return a ratio of powers as text."""
    return "exact" if value is None else f"{value:.1f} dB"


def _amount(one: OutputNoise) -> str:
    if one.measure == "none":
        return "not judged: its shape depends on the data"
    if one.measure == "power" or one.decibels is None:
        return decibels(one.decibels)
    return f"{1 - 10 ** (-one.decibels / 10):.1%} of the elements equal"


def _severity(one: OutputNoise) -> tuple[bool, float]:
    return not one.is_lost, float("inf") if one.decibels is None else one.decibels


def _verdict(one: OutputNoise) -> str:
    if one.constant:
        return "LOST: the same on all samples, and not in float"
    return f"LOST: below {LOST_DB:g} dB" if one.is_lost else ""


def _layers(fidelity: Fidelity) -> Iterator[str]:
    if fidelity.kept:
        yield (
            f"in float for {fidelity.target_db:g} dB, {decibels(fidelity.before_db)} without: "
            f"{_cut(fidelity.kept)}"
        )
    if fidelity.chosen:
        yield f"in float by choice: {_cut(fidelity.chosen)}"
    if fidelity.costly:
        yield (
            f"{_cut(fidelity.costly)} cost most; a higher --quality keeps such layers in float, --errors "
            "shows all"
        )


def _cut(names: Sequence[str]) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - MOST_LAYERS
    shown = ", ".join(names if more <= 1 else names[:MOST_LAYERS])
    return f"{shown} and {more} more" if more > 1 else shown
