"""The verifier of instruction streams."""
