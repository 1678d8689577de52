"""Inner loops of the stream machine, which run as machine code (`vdla.sim.compiled`). Arrays are
contiguous."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.prove.elements import LARGEST_MAGNITUDE, NO_ROOT, RESIDUES, SEVERAL, Elements, Floats
from vdla.sim.compiled import part, whole

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
Bytes = NDArray[np.int8]
Flags = NDArray[np.bool_]


@part
def copy_row(source: Any, out: Any) -> None:
    """Copy a row. The processor copies several of its elements at a time."""
    for place in range(source.shape[0]):
        out[place] = source[place]


@whole
def add_rows(
    values: Floats, more: Integers, places: Integers, out: Floats, bounds: Integers, fits: Flags
) -> None:
    """Add sums to accumulators. If a magnitude could exceed `LARGEST_MAGNITUDE`, nothing is added.

    Args:
        values: float64[RESIDUES, n, m], the residues of the sums.
        more: int64[4], reach, offset, degree and magnitude of the sums.
        places: int64[n], distinct, the accumulators.
        out: float64[RESIDUES, depth, m], the residues of the accumulators.
        bounds: int64[4, depth], reach, offset, degree and magnitude of the accumulators.
        fits: bool[1], gets whether the sums were added.
    """
    fits[0] = True
    for row in range(len(places)):
        if bounds[3, places[row]] + more[3] > LARGEST_MAGNITUDE:
            fits[0] = False
            return
    for row in range(len(places)):
        place = places[row]
        for kind in (0, 1, 3):
            bounds[kind, place] += more[kind]
        bounds[2, place] = max(bounds[2, place], more[2])
    for outer in range(values.shape[0]):
        for row in range(values.shape[1]):
            total, added = out[outer, places[row]], values[outer, row]
            for inner in range(added.shape[0]):
                total[inner] += added[inner]


@whole
def put_rows(values: Floats, more: Integers, places: Integers, out: Floats, bounds: Integers) -> None:
    """Replace accumulators by sums; the arguments are as of `add_rows`."""
    for row in range(len(places)):
        for kind in range(len(more)):
            bounds[kind, places[row]] = more[kind]
    for outer in range(values.shape[0]):
        for row in range(values.shape[1]):
            copy_row(values[outer, row], out[outer, places[row]])


@whole
def copy_rows(
    words: Words,
    residues: Floats,
    chosen: Integers,
    out_words: Words,
    out_residues: Floats,
    places: Integers,
) -> None:
    """Copy the rows `chosen`, int64[n], of lanes to the rows `places`, int64[n], of others.

    Args:
        words, out_words: uint64[rows, words], elements.
        residues, out_residues: float64[RESIDUES, rows, lanes].
    """
    for row in range(len(places)):
        copy_row(words[chosen[row]], out_words[places[row]])
    for number in range(RESIDUES):
        for row in range(len(places)):
            copy_row(residues[number, chosen[row]], out_residues[number, places[row]])


@whole
def write_weights(
    values: Bytes, places: Integers, numbers: Bytes, columns: Floats, magnitudes: Integers
) -> None:
    """Write the weights `places`, int64[n].

    Args:
        values: int8[n, block_out, block_in].
        numbers, columns, magnitudes: as of `vdla.prove.memory.Weights`.
    """
    for row in range(len(places)):
        place = places[row]
        for outer in range(values.shape[1]):
            magnitudes[place, outer] = 0
            for inner in range(values.shape[2]):
                value = values[row, outer, inner]
                numbers[place, outer, inner] = value
                columns[place, inner, outer] = value
                magnitudes[place, outer] += abs(np.int64(value))


@whole
def gather_columns(
    blocks: Floats, magnitudes: Integers, wgt: Integers, out: Floats, largest: Integers
) -> None:
    """Write the matrix of the weights of a matrix product.

    Args:
        blocks: float64[depth, block_in, block_out].
        magnitudes: int64[depth, block_out], magnitudes of the weights, added up along block_in.
        wgt: int64[O, R].
        out: float64[R * block_in, O * block_out].
        largest: int64[1], gets the largest sum of magnitudes of a column.
    """
    high, wide = blocks.shape[1], blocks.shape[2]
    largest[0] = 0
    for o in range(wgt.shape[0]):
        for r in range(wgt.shape[1]):
            for k in range(high):
                copy_row(blocks[wgt[o, r], k], out[r * high + k, o * wide : (o + 1) * wide])
        for column in range(wide):
            total = 0
            for r in range(wgt.shape[1]):
                total += magnitudes[wgt[o, r], column]
            largest[0] = max(largest[0], total)


@part
def take_root(sources: Elements, place: int, elements: Elements, element: int, lane: int) -> Any:
    """Let a sum depend on an element that is no constant. Return whether it depends on several roots now."""
    source, activation = sources[place], elements[element, lane]
    if source.kind == NO_ROOT:
        source.kind = activation.kind
        source.lo = activation.lo
        source.hi = activation.hi
        return False
    return source.kind != activation.kind or source.lo != activation.lo or source.hi != activation.hi


@part
def forget_root(sources: Elements, place: int) -> None:
    """Let a sum depend on several roots."""
    source = sources[place]
    source.kind = NO_ROOT
    source.lo = 0
    source.hi = 0
    source.function = SEVERAL


@part
def take_term(
    elements: Elements,
    element: int,
    lane: int,
    factor: Any,
    constants: Integers,
    sources: Elements,
    counts: Integers,
    offsets: Integers,
    place: int,
) -> Any:
    """Add a term to a sum, for `product_roots`. Return whether the sum has several roots now."""
    activation = elements[element, lane]
    if activation.kind == NO_ROOT:
        offsets[place] += factor * constants[activation.function]
        return False
    if take_root(sources, place, elements, element, lane):
        forget_root(sources, place)
        counts[place] = 0
        return True
    counts[place] += 1
    return False


@part
def steps_of_sum(place: int, elements: Elements, weights: Bytes, wgt: Integers) -> Any:
    """Return of the sum number `place` of a matrix product: the rows of `src` and `wgt`, the row of a weight
    and the first lane of an input."""
    rows, depth = weights.shape[1], weights.shape[2]
    batch, outer = elements.shape[1] // depth, place // rows
    return outer // batch // wgt.shape[0], outer // batch % wgt.shape[0], place % rows, outer % batch * depth


@whole
def product_roots(
    elements: Elements,
    weights: Bytes,
    src: Integers,
    wgt: Integers,
    constants: Integers,
    sources: Elements,
    counts: Integers,
    offsets: Integers,
) -> None:
    """Find the only root of each sum of a matrix product, or that there are several.

    Args:
        elements: elements[depth, batch * block_in], the inputs.
        weights: int8[depth, block_out, block_in].
        constants: int64[functions], the value of each function that is a constant.
        src: int64[P, R]; wgt: int64[O, R].
        sources: elements[P * O * batch * block_out], without a root; gets the root of each sum; its function
            becomes `SEVERAL` where a sum has several.
        counts: int64[like sources], gets the number of terms with the root.
        offsets: int64[like sources], gets the sum of the terms without a root.
    """
    for place in range(sources.shape[0]):
        p, o, row, first = steps_of_sum(place, elements, weights, wgt)
        several = False
        for r in range(src.shape[1]):
            for k in range(weights.shape[2]):
                factor = np.int64(weights[wgt[o, r], row, k])
                if factor != 0 and not several:
                    several = take_term(
                        elements, src[p, r], first + k, factor, constants, sources, counts, offsets, place
                    )
            if several:
                break


@part
def next_factor(weights: Bytes, block: int, row: int, first: int) -> Any:
    """Return the place of the first factor of a row of weights that is not 0, from `first` on; the length of
    the row if there is none."""
    place = first
    while place < weights.shape[2] and weights[block, row, place] == 0:
        place += 1
    return place


@whole
def two_roots(elements: Elements, weights: Bytes, src: Integers, wgt: Integers, out: Flags) -> None:
    """Write whether the first two terms of every sum of a matrix product have different roots. Then every sum
    has several; this is quicker to see than by `product_roots`.

    Args:
        elements, weights, src, wgt: as of `product_roots`; only the first input of each sum counts.
        out: bool[1].
    """
    depth = weights.shape[2]
    batch = elements.shape[1] // depth
    for column in range(wgt.shape[0] * weights.shape[1]):
        block, row = wgt[column // weights.shape[1], 0], column % weights.shape[1]
        first = next_factor(weights, block, row, 0)
        second = next_factor(weights, block, row, first + 1)
        if second >= depth:
            out[0] = False
            return
        for p in range(src.shape[0]):
            for image in range(batch):
                lane = image * depth
                left, right = elements[src[p, 0], lane + first], elements[src[p, 0], lane + second]
                same = left.kind == right.kind and left.lo == right.lo and left.hi == right.hi
                if same or left.kind == NO_ROOT or right.kind == NO_ROOT:
                    out[0] = False
                    return
    out[0] = True


@whole
def term_of_product(
    elements: Elements,
    weights: Bytes,
    src: Integers,
    wgt: Integers,
    counts: Integers,
    number: int,
    functions: Integers,
    factors: Integers,
) -> None:
    """Find one term with a root of each sum of a matrix product that has so many.

    Args:
        elements, weights, src, wgt, counts: as of `product_roots`.
        number: of the term, from 0 on.
        functions, factors: int64[like counts], get function and weight of the term.
    """
    for place in range(counts.shape[0]):
        p, o, row, first = steps_of_sum(place, elements, weights, wgt)
        left = number if number < counts[place] else -1
        for r in range(src.shape[1]):
            if left < 0:
                break
            for k in range(weights.shape[2]):
                factor = np.int64(weights[wgt[o, r], row, k])
                activation = elements[src[p, r], first + k]
                if factor != 0 and activation.kind != NO_ROOT:
                    if left == 0:
                        functions[place] = activation.function
                        factors[place] = factor
                    left -= 1


@whole
def depthwise_sums(
    residues: Floats,
    weights: Bytes,
    src: Integers,
    wgt: Integers,
    terms: Integers,
    shared: int,
    sums: Floats,
) -> None:
    """Write the sums of a DEPTHWISE.

    Args:
        residues: float64[RESIDUES, depth, batch * block], of inputs.
        weights: int8[depth, block, block].
        src, wgt, terms, shared: as of `vdla.prove.indices.Rows`.
        sums: float64[RESIDUES, n, batch * block].
    """
    block = weights.shape[1]
    for number in range(RESIDUES):
        for step in range(src.shape[0]):
            for lane in range(sums.shape[2]):
                row = lane % block
                total = 0.0
                for term in range(terms.shape[0]):
                    element, channel = terms[term, 0], terms[term, 1]
                    factor = weights[wgt[step], row, terms[term, 2]]
                    if factor != 0:
                        input_lane = lane - (row & (shared - 1)) + channel
                        total += residues[number, src[step, element], input_lane] * factor
                sums[number, step, lane] = total


@whole
def depthwise_roots(
    elements: Elements,
    weights: Bytes,
    src: Integers,
    wgt: Integers,
    terms: Integers,
    shared: int,
    constants: Integers,
    sources: Elements,
    counts: Integers,
    offsets: Integers,
) -> None:
    """Find the only root of each sum of a DEPTHWISE, or that there are several.

    Args:
        elements, weights, constants, sources, counts, offsets: as of `product_roots`, for n * batch * block
            sums.
        src, wgt, terms, shared: as of `vdla.prove.indices.Rows`.
    """
    block, lanes = weights.shape[1], elements.shape[1]
    for place in range(src.shape[0] * lanes):
        step, lane = place // lanes, place % lanes
        row = lane % block
        several = False
        for term in range(terms.shape[0]):
            element, channel = terms[term, 0], terms[term, 1]
            factor = np.int64(weights[wgt[step], row, terms[term, 2]])
            if factor != 0 and not several:
                input_lane = lane - (row & (shared - 1)) + channel
                several = take_term(
                    elements,
                    src[step, element],
                    input_lane,
                    factor,
                    constants,
                    sources,
                    counts,
                    offsets,
                    place,
                )


@whole
def term_of_depthwise(
    elements: Elements,
    weights: Bytes,
    src: Integers,
    wgt: Integers,
    terms: Integers,
    shared: int,
    counts: Integers,
    number: int,
    functions: Integers,
    factors: Integers,
) -> None:
    """Find one term with a root of each sum of a DEPTHWISE that has so many; see `term_of_product`."""
    block, lanes = weights.shape[1], elements.shape[1]
    for step in range(src.shape[0]):
        for lane in range(lanes):
            place = step * lanes + lane
            row = lane % block
            left = number if number < counts[place] else -1
            for term in range(terms.shape[0]):
                element, channel = terms[term, 0], terms[term, 1]
                factor = np.int64(weights[wgt[step], row, terms[term, 2]])
                activation = elements[src[step, element], lane - (row & (shared - 1)) + channel]
                if factor != 0 and activation.kind != NO_ROOT:
                    if left == 0:
                        functions[place] = activation.function
                        factors[place] = factor
                    left -= 1
