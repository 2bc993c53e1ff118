"""Standing rules: who may make them, what they decide, and their lists. Their rows: `runs.standing_rules`."""
