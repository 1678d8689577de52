"""What a proof refuses."""

from vdla.hw.spec.errors import VdlaError


class ProofError(VdlaError):
    """A stream or a graph does something that the proof does not cover."""
