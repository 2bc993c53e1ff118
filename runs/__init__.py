"""Runs: why a run waits, who ended the wait, and when it goes on. Knows nothing of people's accounts or HTTP."""
