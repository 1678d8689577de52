"""Figures of the documentation: the commands that measure them, stored output, and pages that show it."""
