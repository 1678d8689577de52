"""The C files that every exported module has as they are."""
