"""Formats of Django's localization, for ``FORMAT_MODULE_PATH``."""
