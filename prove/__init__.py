"""Proofs that streams and graphs of integer operators are the same function of their inputs."""
