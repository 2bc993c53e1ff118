"""Accounts of people: second factors and sessions."""
