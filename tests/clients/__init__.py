"""The clients of `clients/`, against a real server."""
