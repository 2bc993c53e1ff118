"""Databases of earlier releases with work under way, kept as SQL text, and what becomes of them after an upgrade.

`before_0013.sql` is SQLite's dump of commit 75f4911 (migration `runs 0012`); `write_before_0013.py` wrote it, and says how.
A dump is never changed once it is here, since its release is not. Each release adds one.
"""
