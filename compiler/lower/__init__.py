"""Operators that the accelerator runs, one file for each family.

A file declares any of two tables, which `tables` collects from all files of this package:

| table | holds |
|---|---|
| `FORMS` | integer forms: the rules and the lowering of a float operator between conversions |
| `OPERATORS` | placements: the rules of an operator on int8 tensors, and its tasks |
"""
