"""Damaged inputs for `scripts/fuzz_inputs.py`: seeds, mutators, and what is done with each."""
