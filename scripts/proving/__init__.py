"""Campaigns of proofs: faults planted in streams and in the compiler, and what proofs say of them."""
