"""The views of the API, by subject: who, what, do, show."""
