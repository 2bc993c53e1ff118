"""Databases of earlier releases with work under way, kept as SQL text, and tests that upgrade them.

`before_0023.sql` is SQLite's dump of commit 18550ed (migrations up to `runs.0022`, which `runs.0001_tables` replaces now).
It has the rows of `write_fixture.fill`, written with the code of that commit. A dump never changes, because its release
does not. Each release adds one by `python3 manage.py release --fixture`.
"""
