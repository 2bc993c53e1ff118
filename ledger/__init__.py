"""The ledger: what was done to the outside world. Knows nothing of runs, people or HTTP."""
