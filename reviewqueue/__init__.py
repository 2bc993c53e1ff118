"""Review Queue: people, agents and HTTP around `runs` and `ledger`; settings and processes live here too."""
