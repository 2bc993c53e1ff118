"""The demo: its sample data (`setup`), two sample agents, and the business records that they use.

`purchase_agent`, `support_agent` and `business_records` are standard-library Python, each a process of its own, written to
be read. They import nothing of the product and use its HTTP API, like any other agent.
"""
