"""What `manage.py demo` runs beside the product: a sample agent and the business records it works with.

`purchase_agent.py` and `business_records.py` are plain standard-library Python, each a process of its own, written to be
read. Nothing of the product imports them, and they import nothing of it: they speak HTTP, like any agent of yours.
"""
