"""The asynchronous client. `make_sync.py` derives the synchronous one from these modules, except from `platform`."""
