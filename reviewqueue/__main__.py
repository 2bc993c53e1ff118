"""The command `reviewqueue COMMAND` of an installed package, also `python -m reviewqueue COMMAND`."""

from __future__ import annotations

import os
import sys

from reviewqueue.operations.installation import IS_CHECKOUT, PROGRAM

#: Commands that need the tests or the lock files of a checkout.
CHECKOUT_COMMANDS = ("lock", "release", "test")


def main() -> int:
    """Run the command of `sys.argv`; return the exit status."""
    arguments = sys.argv[1:]
    if arguments[:1] and arguments[0] in CHECKOUT_COMMANDS and not IS_CHECKOUT:
        return refuse(f"{arguments[0]} works only in a checkout of the source code: python3 manage.py {arguments[0]}")
    if arguments[:1] == ["demo"]:
        os.environ.setdefault("REVIEWQUEUE_MODE", "demo")
    return run_django(arguments)


def run_django(arguments: list[str]) -> int:
    """Run a command of Django or of the product; return the exit status."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "reviewqueue.settings")
    if not arguments or arguments[0] == "help" or {"-h", "--help"} & set(arguments):
        os.environ.setdefault("SECRET_KEY", os.urandom(32).hex())  # help signs nothing
    try:
        from django.core.exceptions import ImproperlyConfigured
        from django.core.management import execute_from_command_line
    except ImportError:
        return refuse(
            "Django is not installed, although REVIEWQUEUE_ENVIRONMENT=own declares an environment of your own."
        )
    try:
        execute_from_command_line([PROGRAM.split()[-1], *arguments])
    except ImproperlyConfigured as problem:
        return refuse(str(problem))
    return 0


def refuse(sentence: str) -> int:
    sys.stderr.write(f"{sentence}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
