"""The verifier: proves an instruction stream safe before it runs."""
