"""The views of the API, by subject. Each describes its operations with the decorator `describe`."""
