"""The axioms of proofs: equations between terms that follow neither from the laws of rings nor from a
comparison of the 256 values of functions of a byte. A test checks each."""

from enum import Enum


class Axiom(Enum):
    """An equation that a proof may use, as a sentence. The name of the member is its name."""

    ODD_MULTIPLIER = "A requantisation by an even multiplier equals that by half of it and a shift less by 1."
    BOUNDS_AS_FUNCTION = (
        "A requantisation within bounds equals the requantisation within -128..127, clipped to the bounds."
    )
    RESIDUAL_AS_SUM = (
        "A residual sum that cannot wrap equals the requantisation of the scaled operands' sum by the "
        "multiplier 1."
    )
    BY_ELEMENT = (
        "An operator that the host applies element by element computes each element of its result from the "
        "operands' elements at the same place, in the same way at every place."
    )
    GREATEST_OF_SET = (
        "The greatest of several values depends neither on their order nor on repetitions, and no value "
        "below the least that another can take counts."
    )
    MONOTONE_OF_GREATEST = (
        "A function that never decreases, applied to the greatest of several values, is the greatest of the "
        "function's results; least and greatest change places under a function that never increases."
    )
    GREATEST_OF_SUMS = (
        "The requantisation of the greatest of several sums, none of which can wrap when the bias is added, "
        "is the greatest of their requantisations by the same parameters."
    )
    ORDER_OF_ROW = (
        "The statistics of a row depend on how often the row holds each value, and not on the order of its "
        "values."
    )
    NORMALISED_ROW = (
        "Int8Softmax and Int8LayerNormalization compute each element of their result from the element at the "
        "same place, its row's statistics and its column's parameters, as NORMALISE does."
    )
