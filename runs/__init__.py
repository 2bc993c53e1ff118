"""Runs: what an agent asks, who has permission to decide, and when a run continues. Use cases are in ``use_cases``."""
