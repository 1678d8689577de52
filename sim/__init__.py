"""The simulators: semantics and cycles of programs."""
