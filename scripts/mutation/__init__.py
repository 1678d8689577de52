"""Mutation testing of the package's sources: what is changed, which tests look at it, and what came of it."""
