"""A figure as text: what is drawn, where, and how it looks, one artist a line."""

from collections.abc import Iterator

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, Rectangle, StepPatch
from matplotlib.text import Annotation, Text


def described(figure: Figure) -> list[str]:
    """Return the text of a figure: numbers have four digits, as far as machines agree on them."""
    size = _numbers(figure.get_size_inches())
    return [
        f"figure of {size} inches",
        *(line for axes in figure.axes for line in _axes(axes)),
        *_legends(figure),
    ]


def _numbers(values: object) -> str:
    return " ".join(f"{value:.4g}" for value in np.round(np.ravel(np.asarray(values, float)), 6) + 0.0)


def _axes(axes: Axes) -> Iterator[str]:
    yield f"axes {'shown' if axes.axison else 'hidden'}, title {axes.get_title('left')!r}"
    for name, axis, limits in (("x", axes.xaxis, axes.get_xlim()), ("y", axes.yaxis, axes.get_ylim())):
        ticks = [text.get_text() for text in axis.get_ticklabels()]
        marks = axis.get_tick_params()
        yield (
            f"  {name} {axis.get_scale()} {_numbers(limits)}, label {axis.get_label_text()!r}, ticks {ticks}, "
            f"{len(axis.get_minor_ticks())} minor, {sorted(marks.items())}"
        )
        grid = axis.get_gridlines()[0] if axis.get_gridlines() else None
        yield f"    grid {_line_style(grid) if grid and grid.get_visible() else 'none'}"
    yield f"  spines {[name for name, spine in axes.spines.items() if spine.get_visible()]}"
    for artist in axes.get_children():
        for line in _artist(artist):
            yield f"  {line}"


def _artist(artist: Artist) -> Iterator[str]:
    match artist:
        case Annotation():
            yield (
                f"{_text(artist)}, from {_numbers(artist.xyann)} {artist.anncoords}, "
                f"{artist.xycoords}, clipped {artist.get_annotation_clip()}, in layout {artist.get_in_layout()}"
            )
            if artist.arrow_patch:
                yield f"  {_arrow(artist.arrow_patch)}"
        case Text() if artist.get_text():
            yield _text(artist)
        case Line2D():
            yield (
                f"line {artist.get_label()!r} {_line_style(artist)}, marker {artist.get_marker()} "
                f"{artist.get_markersize():g}: {_numbers(artist.get_xdata())} / {_numbers(artist.get_ydata())}"
            )
        case StepPatch():
            values, edges, _ = artist.get_data()
            yield f"stairs {to_hex(artist.get_facecolor())} {artist.get_fill()} {_sums(values)} / {_sums(edges)}"
        case PolyCollection():
            corners = [
                _numbers([path.vertices.min(axis=0), path.vertices.max(axis=0)])
                for path in artist.get_paths()
            ]
            edge = f"{to_hex(artist.get_edgecolor()[0])} {_numbers(artist.get_linewidth())}"
            yield f"bar {to_hex(artist.get_facecolor()[0])} within {edge}: {corners}"
        case Rectangle() if artist.axes and artist is not artist.axes.patch:
            yield f"bar {to_hex(artist.get_facecolor())}: {_numbers(artist.get_bbox().bounds)}"


def _sums(values: np.ndarray) -> str:
    """Return what distinguishes long rows of numbers: their length, ends and middle."""
    return f"{len(values)} from {_numbers([values[0], values[-1], np.mean(values), np.std(values)])}"


def _text(text: Text) -> str:
    place = text.xy if isinstance(text, Annotation) else text.get_position()
    return (
        f"text {text.get_text()!r} at {_numbers(place)}, {text.get_fontsize():g} {text.get_weight()} "
        f"{to_hex(text.get_color())} {text.get_ha()} {text.get_va()}, turned {text.get_rotation():.1f}"
    )


def _line_style(line: Line2D) -> str:
    return f"{to_hex(line.get_color())} {line.get_linewidth():g} {line.get_linestyle()} above {line.get_zorder():g}"


def _arrow(arrow: FancyArrowPatch) -> str:
    style = type(arrow.get_arrowstyle()).__name__
    return f"{style} {to_hex(arrow.get_edgecolor())} {arrow.get_linewidth():g} {arrow.shrinkA:g} {arrow.shrinkB:g}"


def _legends(figure: Figure) -> Iterator[str]:
    for legend in figure.legends:
        assert isinstance(legend, Legend)
        handles = [
            to_hex(handle.get_facecolor() if isinstance(handle, Rectangle) else handle.get_color())
            for handle in legend.legend_handles
        ]
        names = [text.get_text() for text in legend.texts]
        sizes = {text.get_fontsize() for text in legend.texts}
        yield f"legend in {legend._ncols} columns, framed {legend.get_frame_on()}, {sizes}: {names} {handles}"
