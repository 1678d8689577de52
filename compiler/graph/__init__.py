"""Networks as graphs of operators: importing, text, checking, interpreting, passes, quantisation."""
