"""Operators stated as tensor expressions on the accelerator's blocked layouts.

A tensor of channels is kept in blocks: activations as [n, c, h, w, batch, block], weights as [g, o, c, kh,
    kw, block_out, block_in], so that
the last two dimensions are one element of the accelerator's memories.
"""
