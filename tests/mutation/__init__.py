"""Mutation testing of the core: `python -m tests.mutation` breaks one line at a time and asks whether a test fails."""
