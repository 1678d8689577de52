"""Layouts in DRAM of values that only operators of the same launch read, one file for each layout.

A file declares an address map, and in the table `LAYOUTS` the rule that chooses the map for a value.
"""
