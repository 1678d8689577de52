"""Boards for tests: a board in Python behind a socket, and a proxy that damages what passes."""
