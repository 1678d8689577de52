"""What quantisation decides: what becomes int8, with which scales, and what stays in float."""
