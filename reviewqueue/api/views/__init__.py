"""The views of the API, by subject. Each method is decorated with its `Operation`."""
