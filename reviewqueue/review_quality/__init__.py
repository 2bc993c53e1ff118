"""Whether people decide with care: planted requests, and decisions that are faster than reading."""
