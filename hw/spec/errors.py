"""Errors every room raises: each names the subject, its value, what is allowed, and what to do."""


class VdlaError(Exception):
    """Base of every error this kit raises for something its user can mend."""


class ConfigError(VdlaError):
    """A configuration, or a file holding one, that cannot work."""


class EncodingError(VdlaError):
    """A field value or bit pattern that the instruction set does not have."""


class AssemblyError(VdlaError):
    """Assembly text that cannot be read; the message shows the line with a caret."""


class FileFormatError(VdlaError):
    """A file that is truncated, altered, or not of the format its name says."""


class OutputError(VdlaError):
    """A file that cannot be written."""


class ToolError(VdlaError):
    """An outside tool is missing or failed."""


class DeviceError(VdlaError):
    """A device could not do what was asked of it."""


class ProgramError(DeviceError):
    """An instruction stream did something illegal while it ran.

    Attributes:
        index: position in the stream of the offending instruction; None where no single one is.
    """

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.index = index


class InvalidInstructionError(ProgramError):
    """The stream holds a bit pattern that is no instruction of this configuration."""


class AccessError(ProgramError):
    """An instruction reaches outside a scratchpad or outside DRAM."""


class OverwriteError(ProgramError):
    """A STORE would write the stream that is running, or micro-ops that the stream loads."""


class DeadlockError(ProgramError):
    """No unit can go on: each waits for a token that nobody will push."""


class UnfinishedError(ProgramError):
    """The stream ran out without executing FINISH."""


class CycleLimitError(DeviceError):
    """A run was stopped at its cycle limit."""
