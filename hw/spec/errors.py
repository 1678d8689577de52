"""The errors of the kit. Each message names the subject, its value, what is allowed, and what to do."""


class VdlaError(Exception):
    """Base of all errors that the user can correct."""


class ConfigError(VdlaError):
    """A configuration is invalid, or a configuration file cannot be read."""


class EncodingError(VdlaError):
    """A field value or bit pattern that is not in the instruction set."""


class AssemblyError(VdlaError):
    """Assembly text with a syntax error; the message shows the line with a caret."""


class FileFormatError(VdlaError):
    """A file that is truncated, altered, or not of the format that its name says."""


class OutputError(VdlaError):
    """A file that cannot be written."""


class ToolError(VdlaError):
    """An external tool is missing or failed."""


class DeviceError(VdlaError):
    """A device cannot do what was requested."""


class ProgramError(DeviceError):
    """An instruction stream did something illegal.

    Attributes:
        index: position in the stream of the offending instruction; None where there is no single instruction.
    """

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index


class InvalidInstructionError(ProgramError):
    """The stream holds a bit pattern that is no instruction of this configuration."""


class AccessError(ProgramError):
    """An instruction reaches outside a scratchpad or outside DRAM."""


class OverwriteError(ProgramError):
    """A STORE or NORMALISE would write the running stream, or micro-ops that the stream loads."""


class DeadlockError(ProgramError):
    """No unit can go on: each waits for a token that no remaining instruction pushes."""


class UnfinishedError(ProgramError):
    """The stream ended without a FINISH."""


class CycleLimitError(DeviceError):
    """A run was stopped at its cycle limit."""
