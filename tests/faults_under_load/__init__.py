"""Faults of a whole installation under load: what fails, what is lost, what is done twice.

`__main__` is the command. `cluster` runs a primary PostgreSQL with a standby, `installation` two web and two worker nodes
behind nginx, `load` the agents and reviewers, `faults` what happens to them.
"""
