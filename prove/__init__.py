"""Proofs that compiled streams compute their graph for every input: translation validation of modules."""
