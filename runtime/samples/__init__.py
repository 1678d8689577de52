"""Samples and inputs that a person gives, and their fit to what a network takes.

`given.given_of` reads whatever is given: arrays, mappings, lists, files, folders. `fit.fit` makes a sample
for each run of it: an array for each input, of the input's shape and type. Every command and the Python
interface read samples and inputs by these two functions.
"""

from vdla.hw.spec.errors import VdlaError


class InputError(VdlaError):
    """Samples or inputs that cannot be read, or that do not fit the network."""
