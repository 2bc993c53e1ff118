"""The effect ledger, and what every package uses: clock, transactions, exact JSON. It knows no runs, reviewers or HTTP."""
