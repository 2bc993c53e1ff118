"""Request serializers, and the functions that make arguments of use cases from validated requests."""
