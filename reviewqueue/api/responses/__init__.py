"""Responses, by subject. Each class declares its members once: how they are written and what OpenAPI says of them.

An answer itself is only in a claim, in a suspend under a live lease, and in what a person sees: an agent that polls learns
that there is an answer, never which. Objects must come with their related rows loaded.
"""
