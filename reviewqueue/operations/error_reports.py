"""Error reports (mail to ADMINS, debug page) without any value that a person entered or a program sent.

Django's own filter is a deny-list: it includes headers such as `Run-Lease`, posted fields, the query and local variables.
This filter reports names, and values only from an allow-list.
"""

from __future__ import annotations

import copy
from collections.abc import ItemsView
from types import FrameType
from typing import Any

from django.http import HttpRequest
from django.utils.datastructures import MultiValueDict
from django.views.debug import ExceptionReporter, SafeExceptionReporterFilter

from reviewqueue.operations.log_filters import public_path

#: Request metadata reported with its value.
REPORTED = frozenset(
    {
        *("CONTENT_LENGTH", "CONTENT_TYPE", "HTTP_ACCEPT", "HTTP_HOST", "HTTP_USER_AGENT", "HTTP_X_FORWARDED_PROTO"),
        *("HTTP_X_REQUEST_ID", "PATH_INFO", "REMOTE_ADDR", "REQUEST_METHOD", "SCRIPT_NAME", "SERVER_NAME"),
        *("SERVER_PORT", "SERVER_PROTOCOL"),
    }
)


class ErrorReportFilter(SafeExceptionReporterFilter):
    """Report names, the values of `REPORTED` names, and the types of local variables."""

    def get_safe_settings(self) -> dict[str, Any]:
        return {}

    def get_safe_request_meta(self, request: HttpRequest) -> dict[str, Any]:
        meta = getattr(request, "META", {})
        shown = {name: value if name in REPORTED else self.cleansed_substitute for name, value in meta.items()}
        return shown | {"PATH_INFO": public_path(request)} if "PATH_INFO" in shown else shown

    def get_safe_cookies(self, request: HttpRequest) -> dict[str, Any]:
        return dict.fromkeys(getattr(request, "COOKIES", {}), self.cleansed_substitute)

    def get_post_parameters(self, request: HttpRequest | None) -> dict[str, Any]:
        return {} if request is None else self.without_values(request.POST)

    def get_traceback_frame_variables(self, request: HttpRequest, tb_frame: FrameType) -> ItemsView[str, Any]:
        return {name: f"<{type(value).__name__}>" for name, value in tb_frame.f_locals.items()}.items()

    def without_values(self, fields: MultiValueDict[str, Any]) -> dict[str, Any]:
        """Return the names of these fields."""
        return dict.fromkeys(fields, self.cleansed_substitute)


class ErrorReporter(ExceptionReporter):
    """Also omit the path, and the values of the query and of uploads, for which Django calls no filter."""

    def get_traceback_data(self) -> dict[str, Any]:
        data: dict[str, Any] = super().get_traceback_data()
        if self.request is not None:
            data["request"] = shown = copy.copy(self.request)
            shown.path = shown.path_info = public_path(self.request)  # the templates show it
            data["request_GET_items"] = ErrorReportFilter().without_values(self.request.GET).items()
            data["request_FILES_items"] = ErrorReportFilter().without_values(self.request.FILES).items()
        return data

    def _get_raw_insecure_uri(self) -> str:
        request: Any = self.request  # the stubs leave out its methods
        return f"{request.scheme}://{request._get_raw_host()}{public_path(request)}"
