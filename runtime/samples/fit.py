"""The fit of what is given to the inputs of a network: a sample for each run.

An array may be a single sample, of the input's shape or without a first axis of extent 1. It may also be a
stack of samples along an additional first axis. If the first axis of the input is a batch of 1 or has no
fixed extent, samples may follow each other along that axis.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from vdla.runtime.samples import InputError
from vdla.runtime.samples.declared import Declared
from vdla.runtime.samples.elements import of_type
from vdla.runtime.samples.files import Item
from vdla.runtime.samples.given import Entry, Given
from vdla.runtime.samples.images import Picture, Scale, pixels_of
from vdla.runtime.samples.sounds import Sound, windows_of

Sample = dict[str, np.ndarray]
UNNAMED = "arr_"
"""What numpy.savez calls arrays without a name begins with this."""


class Along(Enum):
    """Where the samples of an input stand in what was given."""

    ALONE = "one sample"
    STACK = "along one more axis in front"
    BATCH = "along the first axis"


@dataclass(frozen=True, slots=True)
class Fitted:
    """Samples that fit a network.

    Attributes:
        samples: an array for each input, in the order of the inputs; at least one sample.
        along: where the samples stand in what was given, which is where results of several are joined.
        notes: what was done to what was given, a sentence each.
    """

    samples: tuple[Sample, ...]
    along: Along
    notes: tuple[str, ...] = ()

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each input, which is the same in all samples."""
        sample, *_ = self.samples
        return {name: array.shape for name, array in sample.items()}


@dataclass(frozen=True, slots=True)
class _Parts:
    """The samples of one input."""

    arrays: Sequence[np.ndarray]
    along: Along
    notes: tuple[str, ...] = ()


def fit(
    given: Given, inputs: Mapping[str, Declared], others: Mapping[str, float | None] | None = None
) -> Fitted:
    """Return what was given as samples of a network.

    Args:
        inputs: of the network, by name.
        others: names that may stand beside the names of inputs, and whose arrays are left out; with the
            number that the network has in their place, which they must hold, too.

    Raises:
        InputError: an input is missing or unknown, an array does not fit it, or it may be understood in
            several ways; the message says what to pass.
    """
    fitted = [_of_entry(entry, inputs, others or {}, given.scale) for entry in _entries(given, inputs)]
    samples = tuple(sample for fitted_entry in fitted for sample in fitted_entry.samples)
    for name in inputs:
        shapes = list(dict.fromkeys(sample[name].shape for sample in samples))
        if len(shapes) > 1:
            raise InputError(
                f"samples of input {name} have the shapes {' and '.join(map(_extents, shapes[:2]))}; a "
                f"module has one shape: cut or pad them, or give --shape {name}={_option(shapes[0])}"
            )
    _check_names(inputs, samples[0])
    stacked = any(fitted_entry.along is Along.STACK for fitted_entry in fitted)
    alone = not given.listed and all(fitted_entry.along is Along.ALONE for fitted_entry in fitted)
    along = Along.STACK if stacked else Along.ALONE if alone else Along.BATCH
    return Fitted(samples, along, tuple(note for fitted_entry in fitted for note in fitted_entry.notes))


def _check_names(inputs: Mapping[str, Declared], sample: Sample) -> None:
    """Refuse shapes that give one open extent of the file two values."""
    known: dict[str, tuple[str, int]] = {}
    for name, declared in inputs.items():
        for extent, size in zip(declared.names, sample[name].shape, strict=False):
            first_name, first_size = known.setdefault(extent, (name, size)) if extent else (name, size)
            if first_size != size:
                options = {
                    input_name: f"--shape {input_name}={_option(sample[input_name].shape)}"
                    for input_name in (first_name, name)
                }
                sizes = (
                    f"{first_size} and {size}"
                    if first_name == name
                    else f"{first_size} in input {first_name} and {size}"
                )
                raise InputError(
                    f"the extent {extent} is {sizes} in input {name}; pass samples of one extent, or give "
                    f"{' and '.join(options.values())} if both are meant"
                )


def _entries(given: Given, inputs: Mapping[str, Declared]) -> Iterable[Entry]:
    """Return the entries; a list of as many arrays as there are inputs is one sample, if these are
    several."""
    single = [entry.unnamed for entry in given.entries]
    if 1 < len(inputs) == len(single) and all(len(items) == 1 for items in single):
        return [Entry("", {}, tuple(item for items in single for item in items))]
    return given.entries


def _of_entry(
    entry: Entry, inputs: Mapping[str, Declared], others: Mapping[str, float | None], scale: Scale | None
) -> Fitted:
    items = _named(entry, inputs, others)
    parts = {
        name: _parts(items[name], f"{entry.where}input {name}", name, type_, scale)
        for name, type_ in inputs.items()
    }
    several = {name: len(part.arrays) for name, part in parts.items() if part.along is not Along.ALONE}
    if len(set(several.values())) > 1 or 0 in several.values():
        counts = ", ".join(f"{name}: {count}" for name, count in several.items())
        raise InputError(
            f"{entry.where}arrays have {counts} samples; give each input the same number, at least 1, along "
            "the first dimension"
        )
    count = max(several.values(), default=1)
    samples = tuple(
        {name: part.arrays[place if name in several else 0] for name, part in parts.items()}
        for place in range(count)
    )
    kinds = {part.along for part in parts.values()}
    along = next(kind for kind in (Along.STACK, Along.BATCH, Along.ALONE) if kind in {*kinds, Along.ALONE})
    return Fitted(samples, along, tuple(note for part in parts.values() for note in part.notes))


def _named(
    entry: Entry, inputs: Mapping[str, Declared], others: Mapping[str, float | None]
) -> dict[str, Item]:
    """Return the item of each input."""
    named, unnamed = dict(entry.named), entry.unnamed
    if (
        named
        and {*named} == {f"{UNNAMED}{place}" for place in range(len(named))}
        and not {*named} & {*inputs}
    ):
        named, unnamed = {}, tuple(named[f"{UNNAMED}{place}"] for place in range(len(named)))
    if unnamed and len(unnamed) == len(inputs):
        return dict(zip(inputs, unnamed, strict=True))
    for name in {*named} & {*others} - {*inputs}:
        _check_fixed(entry, name, named.pop(name), others[name])
    if unnamed or {*named} != {*inputs}:
        arrays = f"{len(unnamed)} array{'s' * (len(unnamed) != 1)} without a name" if unnamed else ""
        took = ", ".join(f"{name}: {type_}" for name, type_ in inputs.items()) or "no inputs"
        raise InputError(
            f"{entry.where}the network takes {took}; it was given {arrays or ', '.join(named) or 'nothing'}"
        )
    return named


def _check_fixed(entry: Entry, name: str, item: Item, number: float | None) -> None:
    """Refuse an array that contradicts the number to which its input is fixed."""
    if number is not None and isinstance(item, np.ndarray) and not (item == number).all():
        raise InputError(
            f"{entry.where}input {name} is fixed to {number:g}, and its array holds "
            f"{item[item != number].reshape(-1)[0]}; leave the array out, or fix the input to that"
        )


def _parts(item: Item, who: str, name: str, declared: Declared, scale: Scale | None) -> _Parts:
    """Return the samples of an input in an item, of the input's type."""
    if isinstance(item, Picture):
        pixels, note = pixels_of(item, f"input {name}", declared, scale)
        return _Parts([pixels], Along.ALONE, (note,) if note else ())
    if isinstance(item, Sound):
        windows, note = windows_of(item, f"input {name}", declared)
        return _Parts(windows, Along.ALONE if len(windows) == 1 else Along.BATCH, (note,))
    return _of_array(of_type(item, declared.dtype, who), who, name, declared)


def _of_array(array: np.ndarray, who: str, name: str, declared: Declared) -> _Parts:
    """Return the samples in an array."""
    wanted, shape = declared.shape, array.shape
    if wanted is None:
        raise InputError(
            f"{who} is {_text(array)}, and the file leaves open how many axes it has: give --shape "
            f"{name}={_option(shape)} if the array holds a single sample, or --shape "
            f"{name}={_option(shape[1:])} if it is a stack"
        )
    if wanted and len(shape) == len(wanted) and _fits(shape[1:], wanted[1:]):
        parts = _along_first(array, who, name, declared)
        if parts is not None:
            return parts
    elif _fits(shape, wanted):
        return _Parts([array], Along.ALONE)
    elif len(shape) == len(wanted) + 1 and _fits(shape[1:], wanted):
        return _Parts(list(array), Along.STACK)
    elif wanted and wanted[0] in (1, None) and _fits(shape, wanted[1:]):
        return _Parts([array[None]], Along.ALONE)
    raise InputError(
        f"{who} is {_text(array)}, not {declared}, nor a stack of such arrays{_hint(array, wanted)}"
    )


def _along_first(array: np.ndarray, who: str, name: str, declared: Declared) -> _Parts | None:
    """Return the samples of an array that fits an input in rank and in all extents after the first.

    The first axis then holds one sample, or several one after the other. None: the input's first extent is
    fixed and no batch, and the array's first extent differs from it.
    """
    assert declared.shape is not None, "the rank was compared"
    first, count = declared.shape[0], len(array)
    if count == (first or 1):
        return _Parts([array], Along.ALONE)
    if not declared.is_batch:
        if first is not None:
            return None
        option = f"{name}={_option(array.shape)}"
        raise InputError(
            f"{who} is {_text(array)}, and the file leaves its first extent open ({declared}): give --shape "
            f"{option} if the array holds a single sample, or --shape "
            f"{name}={_option((1, *array.shape[1:]))} if it holds {count}"
        )
    batch = first or 1
    if count % batch:
        raise InputError(f"{who} holds {count} samples, which is no multiple of the batch of {batch}")
    return _Parts(np.split(array, count // batch) if count else [], Along.BATCH)


def _fits(shape: Sequence[int], wanted: Sequence[int | None]) -> bool:
    """Whether a shape is wanted; an open extent is at least 1."""
    return len(shape) == len(wanted) and all(
        size == extent if extent is not None else size > 0 for size, extent in zip(shape, wanted, strict=True)
    )


def _hint(array: np.ndarray, wanted: Sequence[int | None]) -> str:
    """Return what to do with an image whose channels stand at another place, or with several batches behind
    each other."""
    batch = wanted[0] if wanted and array.ndim == len(wanted) else None
    if batch and batch < len(array) and len(array) % batch == 0 and _fits(array.shape[1:], wanted[1:]):
        stack = (len(array) // batch, batch, *array.shape[1:])
        return f"; numpy.reshape(array, {stack}) is {stack[0]} of them"
    for source, target in ((-1, 1), (1, -1)) if array.ndim == len(wanted) > 2 else ():
        if _fits(np.moveaxis(array, source, target).shape[1:], wanted[1:]):
            return f"; its channels stand elsewhere: numpy.moveaxis(array, {source}, {target}) moves them"
    return ""


def _text(array: np.ndarray) -> str:
    return f"{array.dtype}{_extents(array.shape)}"


def _extents(shape: Sequence[int]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _option(shape: Sequence[int]) -> str:
    """Return a shape as --shape takes it."""
    return ",".join(map(str, shape))
