"""Operators as tensor expressions on the accelerator's blocked layouts.

Activations are [n, c, h, w, batch, block], weights [g, o, c, kh, kw, block_out, block_in]. The last two
dimensions are one element of an on-chip memory.
"""
