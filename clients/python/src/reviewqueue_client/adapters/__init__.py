"""Adapters for frameworks and engines. Each needs the extra of its name: `pip install 'reviewqueue-client[langgraph]'`."""
