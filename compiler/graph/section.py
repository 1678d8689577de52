"""The part of a model to compile, and inputs fixed to a number; this module does not need the `onnx`
package."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a model, delimited by names of values.

    Attributes:
        inputs: values that become inputs; empty: the model's inputs that the outputs depend on.
        outputs: values that become outputs; empty: the model's outputs.
        fixed: inputs of the model that become constants, each with the value of all its elements.
    """

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    fixed: tuple[tuple[str, float], ...] = ()


WHOLE = Section()
