"""Modules: compiled networks as one file, and running them; needs no compiler."""
