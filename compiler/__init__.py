"""From networks and tensor expressions to accelerator programs: IRs, passes, code generators, tuning."""
