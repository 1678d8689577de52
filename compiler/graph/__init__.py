"""Networks as graphs of operators: import, text, verifier, interpreter, passes, quantisation."""
