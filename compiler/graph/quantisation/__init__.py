"""The decisions of quantisation: which tensors become int8, with which scales, and which layers stay in
float."""
