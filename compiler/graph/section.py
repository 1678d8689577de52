"""Which part of a model is meant, and for which values of inputs; nothing here needs the `onnx` package."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a model, by names of its values.

    Attributes:
        inputs: values that become inputs; empty: the model's own inputs, as far as the outputs need them.
        outputs: values that become outputs; empty: the model's own.
        fixed: inputs of the model that become constants, each with the number that all its elements are.
    """

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    fixed: tuple[tuple[str, float], ...] = ()


WHOLE = Section()
