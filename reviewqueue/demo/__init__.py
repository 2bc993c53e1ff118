"""The demo: a small seeded world (`world`), and what runs beside the product in it.

`purchase_agent`, `support_agent` and `business_records` are plain standard-library Python, each a process of its own,
written to be read. They import nothing of the product and speak HTTP, like any agent of yours.
"""
