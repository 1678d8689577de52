"""Functions shared by the commands for networks."""

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vdla.cli._options import Command, reports_errors
from vdla.compiler.codegen.tuned.best_records import KIT, Tuning, TuningRecords, records_of
from vdla.compiler.graph.source import Section
from vdla.hw.spec.garbage import without_collections
from vdla.hw.spec.numerics import BYTE_BITS
from vdla.hw.spec.target import Target
from vdla.hw.spec.vocabulary import LEAST_WEIGHT_BITS, Extension
from vdla.runtime.module.plan import Plan
from vdla.runtime.samples import InputError
from vdla.runtime.samples.given import Given, given_of
from vdla.runtime.samples.images import PRESETS, Scale, scale_from, scale_of

if TYPE_CHECKING:
    from vdla.compiler.graph.nodes import Graph
    from vdla.compiler.graph.quantisation.options import Options
    from vdla.compiler.network.compile import Compiled
    from vdla.compiler.network.plan_cache import CachedPlan
    from vdla.compiler.network.source import Source


@dataclass(frozen=True, slots=True)
class Recipe:
    """The options that compiling a model needs.

    Attributes:
        calibrate: samples to quantise a float network with, which also tell shapes that are dynamic.
        image_scale: what turns the pixels of images into numbers, of samples and of inputs.
        options: how a float network is quantised.
        shapes: shapes of inputs that are dynamic in the model.
        section: which part of the model.
    """

    calibrate: Path | None
    image_scale: Scale | None
    options: "Options"
    shapes: Mapping[str, tuple[int, ...]]
    section: Section


def takes_float_layers(function: Command) -> Command:
    """Add --float-layers, --float-share, --quality and --weight-bits."""
    named = click.option(
        "--float-layers",
        metavar="NAME,NAME",
        default="",
        help="Layers of a float network that stay in float.",
    )
    share = click.option(
        "--float-share",
        metavar="PERCENT",
        default=0.0,
        show_default=True,
        type=click.FloatRange(0, 100),
        help="Percent of the multiply-accumulates that may stay in float, in the layers that lose most.",
    )
    quality = click.option(
        "--quality",
        metavar="fast|balanced|exact|DB",
        default="balanced",
        show_default=True,
        help="Signal to noise that every output is to have on the samples: layers stay in float until it is "
        "10 dB (balanced), 30 dB (exact) or so many. With fast, none does.",
    )
    bits = click.option(
        "--weight-bits",
        default=BYTE_BITS,
        show_default=True,
        type=click.IntRange(LEAST_WEIGHT_BITS, BYTE_BITS),
        help="Bits of the weights of a float network. Accelerators with the extension narrow_weights load "
        "weights of 4 and of 2 bits in a half and in a quarter of the time.",
    )
    return named(share(quality(bits(function))))


def _takes_part(function: Command) -> Command:
    """Add the options that say what part of a model is compiled, for which shapes."""
    shape = click.option(
        "--shape",
        "shapes",
        multiple=True,
        metavar="NAME=1,3,224,224",
        help="Shape of an input that is dynamic in the model; may be repeated.  [default: from --calibrate, "
        "with a batch of 1]",
    )
    fixed = click.option(
        "--fix",
        "fixed",
        multiple=True,
        metavar="NAME=16000",
        help="Number that an input of the model is, which then is a constant; may be repeated.",
    )
    inputs = click.option(
        "--inputs",
        "cut_inputs",
        multiple=True,
        metavar="NAME,NAME",
        help="Compile the part of the model behind these values; may be repeated.",
    )
    outputs = click.option(
        "--outputs",
        "cut_outputs",
        multiple=True,
        metavar="NAME,NAME",
        help="Compile the part of the model that makes these values; may be repeated.",
    )
    states = click.option(
        "--state",
        "states",
        multiple=True,
        metavar="PAST=PRESENT",
        help="Input that takes the value of an output of the run before, such as past_*=present_*; may be "
        "repeated.",
    )
    return shape(fixed(inputs(outputs(states(function)))))


def _takes_samples(function: Command) -> Command:
    """Add --calibrate, and the options that say what an image's pixels mean; the command gets `calibrate` and
    `image_scale`."""

    @click.option(
        "--calibrate",
        metavar="SAMPLES",
        type=click.Path(exists=True, path_type=Path),
        help="Samples to quantise a float network with: an .npz file with an array for each input, an .npy "
        "file, "
        "an image, a WAV file, or a folder of these. Arrays have one more dimension in front, or samples in "
        "place "
        "of a batch of 1.",
    )
    @click.option(
        "--image-preset",
        type=click.Choice(list(PRESETS)),
        help="What images become: as for networks trained on ImageNet or by CLIP, 0 to 1, -1 to 1, or 0 to "
        "255.",
    )
    @click.option("--image-mean", metavar="N[,N,N]", help="Mean of an image's pixels, in place of a preset.")
    @click.option(
        "--image-std",
        metavar="N[,N,N]",
        help="Standard deviation of the pixels. Pixels are 0 to 255 where a mean or deviation is above 1, "
        "else 0 "
        "to 1.",
    )
    @reports_errors
    @wraps(function)
    def wrapped(
        image_preset: str | None, image_mean: str | None, image_std: str | None, **kwargs: object
    ) -> None:
        function(image_scale=_image_scale(image_preset, image_mean, image_std), **kwargs)

    return wrapped


def _image_scale(preset: str | None, mean: str | None, std: str | None) -> Scale | None:
    """Return what the options of images say."""
    if preset is not None and (mean, std) != (None, None):
        raise InputError("--image-preset says what --image-mean and --image-std say; give one or the others")
    if (mean is None) != (std is None):
        raise InputError("--image-mean and --image-std go together; give both, or --image-preset")
    if mean is None or std is None:
        return scale_of(preset)
    return scale_from(_numbers("--image-mean", mean), _numbers("--image-std", std))


def _numbers(option: str, text: str) -> tuple[float, ...]:
    """Parse `0.485,0.456,0.406`."""
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError as error:
        raise InputError(f"{option} {text} is not of the form 0.485,0.456,0.406") from error


def takes_recipe(function: Command) -> Command:
    """Add the options of a `Recipe`; the command gets them as `recipe`."""

    @click.option(
        "--percentile",
        type=click.FloatRange(50, 100),
        help="Percentile of each activation's magnitudes that its scale must hold.  [default: the range that "
        "costs least on the samples]",
    )
    @takes_float_layers
    @_takes_part
    @_takes_samples
    @wraps(function)
    def wrapped(
        calibrate: Path | None,
        image_scale: Scale | None,
        percentile: float | None,
        float_layers: str,
        float_share: float,
        quality: str,
        weight_bits: int,
        shapes: tuple[str, ...],
        fixed: tuple[str, ...],
        cut_inputs: tuple[str, ...],
        cut_outputs: tuple[str, ...],
        states: tuple[str, ...],
        **kwargs: object,
    ) -> None:
        from vdla.compiler.graph.quantisation.options import Options, quality_db

        section = _section(cut_inputs, cut_outputs, fixed, states)
        layers = tuple(name for name in float_layers.split(",") if name)
        options = Options(percentile, layers, float_share, quality_db(quality), weight_bits)
        recipe = Recipe(calibrate, image_scale, options, dict(map(_shape, shapes)), section)
        function(recipe=recipe, **kwargs)

    return wrapped


def takes_tuning(function: Command) -> Command:
    """Add --tuned; the command gets the `records` that it names."""

    @click.option(
        "--tuned",
        metavar="LOG|none",
        help="Tuning log of vdla tune, whose best choices are used.  [default: the records that ship with "
        "the kit]",
    )
    @reports_errors
    @wraps(function)
    def wrapped(tuned: str | None, **kwargs: object) -> None:
        records = records_of(tuned)
        if records.torn:
            click.echo(f"{tuned}: its last line is torn, and left out", err=True)
        function(records=records, **kwargs)

    return wrapped


def show_tuning(tuning: Tuning, records: TuningRecords, target: Target, *, err: bool = False) -> None:
    """Print how records served, where they were asked for or did."""
    if records.source and (records.source != KIT or tuning.applied):
        others = () if records.source == KIT else records.other_targets(target)
        click.echo(tuning.report(records.source, others), err=err)


def _section(
    inputs: tuple[str, ...], outputs: tuple[str, ...], fixed: tuple[str, ...], states: tuple[str, ...]
) -> Section:
    """Parse the texts of --inputs, --outputs, --fix and --state."""
    return Section(
        _names("--inputs", inputs),
        _names("--outputs", outputs),
        tuple(map(_fixed, fixed)),
        tuple(map(_state, states)),
    )


def _names(option: str, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Parse texts of names with commas between them."""
    names = tuple(name for text in texts for name in text.split(","))
    if "" in names:
        raise InputError(f"{option} {','.join(texts)} has an empty name; it is of the form NAME,NAME")
    return names


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Parse `NAME=1,3,224,224` into a name and extents."""
    name, _, extents = text.rpartition("=")
    try:
        return name, tuple(int(extent) for extent in extents.split(","))
    except ValueError as error:
        raise InputError(f"--shape {text} is not of the form NAME=1,3,224,224") from error


def _fixed(text: str) -> tuple[str, float]:
    """Parse `NAME=16000` into a name and a number."""
    name, _, number = text.rpartition("=")
    try:
        return name, float(number)
    except ValueError as error:
        raise InputError(f"--fix {text} is not of the form NAME=16000") from error


def _state(text: str) -> tuple[str, str]:
    """Parse `PAST=PRESENT`."""
    before, _, after = text.partition("=")
    if not before or not after:
        raise InputError(f"--state {text} is not of the form PAST=PRESENT")
    return before, after


def _samples(recipe: Recipe) -> Given | None:
    return None if recipe.calibrate is None else given_of(recipe.calibrate, recipe.image_scale)


def source_of(model: Path, recipe: Recipe) -> "Source":
    """Return what the graph of a network follows from."""
    from vdla.compiler.network.source import Source

    return Source(model, _samples(recipe), recipe.options, recipe.shapes, recipe.section)


def graph_of(model: Path, recipe: Recipe, say: Callable[[str], None]) -> "Graph":
    """Return the graph of integer operators of a network, from the cache if it is there."""
    from vdla.compiler.network.plan_cache import cached_graph

    return cached_graph(source_of(model, recipe), say)


def plan_with_progress(model: Path, target: Target, recipe: Recipe, records: TuningRecords) -> "CachedPlan":
    """Compile a network, or take it from the cache; show progress on a terminal."""
    from vdla.compiler.network.plan_cache import cached_tuned_plan

    source = source_of(model, recipe)
    with status() as say, without_collections():
        compiled = cached_tuned_plan(source, target, records, say)
    _tell_unused(recipe, compiled.plan)
    _tell_wide(recipe, target)
    return compiled


def compile_with_errors(model: Path, target: Target, recipe: Recipe, records: TuningRecords) -> "Compiled":
    """Compile a network and measure the quantisation error of each layer; show progress on a terminal."""
    from vdla.compiler.network.compile import compile_network

    samples = _samples(recipe)
    with status() as say:
        compiled = compile_network(
            model,
            target,
            samples=samples,
            options=recipe.options,
            shapes=recipe.shapes,
            section=recipe.section,
            errors=True,
            records=records,
            progress=say,
        )
    _tell_unused(recipe, compiled.plan)
    _tell_wide(recipe, target)
    return compiled


def _tell_wide(recipe: Recipe, target: Target) -> None:
    """Print that weights of few bits take as many bits in DRAM as others, where that is so."""
    bits, config = recipe.options.weight_bits, target.config
    if 2 * bits <= BYTE_BITS and not config.has(Extension.NARROW_WEIGHTS):
        click.echo(
            f"--weight-bits {bits} saves no time on {target.name}: it loads weights of {config.wgt_bits} "
            f"bits; --set extensions=+{Extension.NARROW_WEIGHTS} lets it load fewer",
            err=True,
        )


def _tell_unused(recipe: Recipe, plan: Plan) -> None:
    """Print that samples have quantised nothing, where that is so."""
    if recipe.calibrate is not None and plan.fidelity is None:
        click.echo(
            f"--calibrate {recipe.calibrate} quantised nothing: the file holds quantised tensors, or no "
            "operator of it can be quantised; samples gave at most shapes",
            err=True,
        )


def explained(model: Path, target: Target, recipe: Recipe, stop_after: str, *, show: bool) -> str:
    """Run the passes of the compiler on a network, and `show` what each does.

    Returns:
        The text of the graph after the pass `stop_after`; "" if that is "".
    """
    from vdla.compiler.graph.explain import StoppedError
    from vdla.compiler.network.compile import explain

    write = click.echo if show else lambda line: None
    try:
        explain(source_of(model, recipe), target, write, stop_after)
    except StoppedError as stopped:
        return str(stopped)
    return ""


@contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """Give a function that shows a text and the seconds so far on one line of a terminal, in place of the
    previous text; no terminal: nothing."""
    shown, began = sys.stderr.isatty(), time.monotonic()

    def say(text: str) -> None:
        if shown:
            width = shutil.get_terminal_size().columns - 1
            line = f"{time.monotonic() - began:6.1f} s  {text}"
            click.echo(f"\r\x1b[K{line[:width]}", nl=False, err=True)

    try:
        yield say
    finally:
        if shown:
            click.echo("\r\x1b[K", nl=False, err=True)
