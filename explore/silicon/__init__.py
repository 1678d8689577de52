"""Area and clock of a configuration: from synthesis and routing, or estimated from its components."""
