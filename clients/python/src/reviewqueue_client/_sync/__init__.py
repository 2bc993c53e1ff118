# Derived from `_async` by make_sync.py; change that instead.
"""The blocking client."""
