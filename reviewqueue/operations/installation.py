"""Where the product is installed: a checkout with `manage.py`, or the installed package with the command `reviewqueue`.

Standard library only, because settings and `manage.py` read it before Django.
"""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
IS_CHECKOUT = (PACKAGE.parent / "manage.py").is_file()

#: Templates, static files and translations are beside the packages in a checkout; the wheel has them in ``reviewqueue``.
ASSETS = PACKAGE.parent if IS_CHECKOUT else PACKAGE

#: The folder for ``var/`` and for the processes that the product starts.
WORKING_FOLDER = PACKAGE.parent if IS_CHECKOUT else Path.cwd()

#: The command as a message names it, and the arguments that start it with this Python.
PROGRAM = "python3 manage.py" if IS_CHECKOUT else "reviewqueue"
ARGUMENTS = [str(PACKAGE.parent / "manage.py")] if IS_CHECKOUT else ["-m", "reviewqueue"]
