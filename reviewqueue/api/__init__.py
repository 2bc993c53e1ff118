"""The agent API, `/api/v1/`: one door of two; pages and API differ in parsing and rendering only."""
