"""Figures, in one command and one run: `.venv/bin/python -m tests.benchmarks` (after any `python3 manage.py test`).

It starts a PostgreSQL that keeps what it commits, and granian as `manage.py web` does; eight clients call both the
product's API and, beside it in the same run, two floors: a plain Django view that inserts one row of 3 KiB on the same
server, and single-row commits straight to the database. What counts is the ratio, since machines differ. Nothing here is
judged: targets are printed beside the figures. Statements per call, which depend on no machine, are pinned in
`tests/api/test_statement_counts.py`.
"""
