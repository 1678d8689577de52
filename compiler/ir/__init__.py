"""Loop programs: nodes, text, verifier, rewriting, and the interpreter that defines their semantics."""
