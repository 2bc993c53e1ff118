"""Counts that a worker stores by day, agent and queue, for the insights and the metrics."""
