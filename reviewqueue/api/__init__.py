"""The API, `/api/v1/`: one of two entry points. Pages and API differ in parsing and rendering only."""
