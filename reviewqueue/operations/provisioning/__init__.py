"""Create agents, people, queues, policies, and what owners configure for their agents.

Missing groups are created. A secret is returned once and stored nowhere. Each function is one transaction, and refuses what
exists already with ``ProvisioningError``. It first locks the head of the audit log, so that two changes at once do not both
find that nothing exists; only accounts of people are locked before it.
"""
