"""Rewrites of graphs as tables of rules; `vdla.compiler.graph.rules` applies them."""
