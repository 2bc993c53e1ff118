"""The adapters of `clients/python` and the examples, each with its real engine and a real server."""
