"""What a proof refuses."""

from vdla.hw.spec.errors import VdlaError


class ProofError(VdlaError):
    """A stream or a graph does something that the proof does not cover."""


class StoreError(ProofError):
    """What a STORE writes is not covered by the proof.

    Attributes:
        index: position of the STORE in its stream.
    """

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(reason)
        self.index = index
