"""Django settings, read from the environment (docs/settings.md).

Three modes (`REVIEWQUEUE_MODE`): `production` refuses to start without `SECRET_KEY`; `demo`, set by `manage.py demo`,
creates a key and a database in `var/`; `test` is for the test suite. There is no debug mode: errors go to the log.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from reviewqueue.operations import environment, file_permissions, installation, log_filters

ROOT = installation.WORKING_FOLDER
VAR = Path(environment.text("VAR_DIR") or ROOT / "var")

file_permissions.keep_new_files_private()

MODE = environment.choice("REVIEWQUEUE_MODE", environment.MODES, "production")
PROCESS = environment.choice("REVIEWQUEUE_PROCESS", environment.PROCESSES, "command")
HOST = environment.text("HOST", "127.0.0.1")
PORT = environment.number("PORT", 8000, max_value=65_535)
BASE_URL = environment.base_url(f"http://localhost:{PORT}")

DEBUG = False
SECRET_KEY = environment.secret_key(mode=MODE, var=VAR)
SECRET_KEY_FALLBACKS = environment.comma_separated("SECRET_KEY_FALLBACKS")
ALLOWED_HOSTS = environment.comma_separated("ALLOWED_HOSTS") or [
    urlsplit(BASE_URL).hostname or "",
    "localhost",
    "127.0.0.1",
    "[::1]",
]

# --- apps and middleware ----------------------------------------------------------------------------------------------

INSTALLED_APPS = [
    "ledger",
    "runs",
    "reviewqueue",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.usersessions",
    "csp",
    "django_htmx",
    "django_q",
    "rest_framework",
    "drf_spectacular_sidecar",  # the API reference loads nothing from other hosts
]

MIDDLEWARE = [
    "reviewqueue.middleware.assign_request_id",
    "django.middleware.security.SecurityMiddleware",
    "reviewqueue.middleware.send_content_security_policy",
    "reviewqueue.middleware.StaticFilesMiddleware",
    "reviewqueue.middleware.CompressionMiddleware",
    "reviewqueue.middleware.disable_caching",
    "reviewqueue.middleware.refuse_nul_characters",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "reviewqueue.middleware.answer_api_calls",
    # Calls of the API do not reach the middleware below: it is about sessions and pages.
    "django.contrib.sessions.middleware.SessionMiddleware",
    "reviewqueue.middleware.activate_language",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "reviewqueue.middleware.limit_page_rate",
    "reviewqueue.middleware.LoginRequiredSavingDraft",  # a test lists the views without it
    "django.contrib.messages.middleware.MessageMiddleware",
    "reviewqueue.middleware.activate_browser_time_zone",
    "allauth.account.middleware.AccountMiddleware",
    "reviewqueue.middleware.record_activity",
    "reviewqueue.middleware.require_second_factor",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "reviewqueue.urls"
WSGI_APPLICATION = "reviewqueue.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [installation.ASSETS / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# --- processes and storage --------------------------------------------------------------------------------------------

WEB_PROCESSES = environment.number("WEB_PROCESSES", os.cpu_count() or 1, min_value=1)
WEB_THREADS = environment.number("WEB_THREADS", 12, min_value=1)  # per process
SHUTDOWN_DELAY = environment.number("SHUTDOWN_DELAY", 0, max_value=600)
LONG_POLLS = environment.number("LONG_POLLS", 32)  # per process; a waiting long poll uses none of WEB_THREADS
# The URLs contain a password, so they are no settings of their own: an error report or `diffsettings` would print them.
DATABASES: dict[str, dict[str, Any]] = environment.databases(
    environment.text("DATABASE_URL")
    or environment.default_database(VAR, "demo.sqlite3" if MODE == "demo" else "reviewqueue.sqlite3"),
    direct=environment.text("DATABASE_DIRECT_URL"),
    replica=environment.text("REPLICA_DATABASE_URL"),
    process=PROCESS,
    pool_size=WEB_THREADS,
)
DATABASE_ROUTERS = ["reviewqueue.queries.replica.ReplicaRouter"] if "replica" in DATABASES else []
REPLICA_MAX_LAG = environment.number("REPLICA_MAX_LAG", 10, max_value=3600)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CACHES = {
    # Limits on sign-in attempts apply to all processes and hosts only if they share the counts.
    # At Django's default of 300 entries, counts of many addresses would remove those that still apply.
    "default": {
        "BACKEND": "django.core.cache.backends.db.DatabaseCache",
        "LOCATION": "reviewqueue_cache",
        "OPTIONS": {"MAX_ENTRIES": 10_000},
    },
    # django-q2 writes its status twice a second. Nothing reads it, because workers have a heartbeat of their own.
    "process": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
}

# Checkpoint files. They must be in the backup, like the database.
MEDIA_ROOT = environment.text("FILES_DIR") or VAR / ("demo-files" if MODE == "demo" else "files")
ATTACHMENT_SCAN = environment.text("ATTACHMENT_SCAN")
CHECKPOINT_FILE_BYTES = environment.number("CHECKPOINT_FILE_MB", 64, max_value=10_000) * 1024 * 1024
STORAGES: dict[str, dict[str, Any]] = {
    "default": environment.file_storage("FILES_URL"),
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

# A call of 300,000 characters takes up to 12 bytes for each in a form; a form with many lists has several thousand fields.
DATA_UPLOAD_MAX_MEMORY_SIZE = 8 * 1024 * 1024
DATA_UPLOAD_MAX_NUMBER_FIELDS = 10_000

STATIC_URL = "/static/"
STATICFILES_DIRS = [installation.ASSETS / "static"]
WHITENOISE_USE_FINDERS = True  # no collectstatic: a fresh clone serves its files
WHITENOISE_AUTOREFRESH = False

# --- authentication ---------------------------------------------------------------------------------------------------

AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "allauth.account.auth_backends.AuthenticationBackend",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"

ACCOUNT_ADAPTER = "reviewqueue.pages.account_adapter.ClosedAccountAdapter"
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"  # the operator who adds a person has verified the address
ACCOUNT_LOGOUT_ON_GET = False
ACCOUNT_LOGOUT_REDIRECT_URL = "account_login"
ACCOUNT_LOGOUT_ON_PASSWORD_CHANGE = True
ACCOUNT_PREVENT_ENUMERATION = True
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False  # a stranger cannot make the server send mail to any address
ACCOUNT_RATE_LIMITS = {
    # Wrong passwords, as `account_adapter` counts them. "key" is the client's address (IPv6: its /64) with the person.
    "login_failed": "5/5m/key,20/h/key",
    "login_failed_of_address": "10/m/key",  # the address alone, over all people; not for a person's first attempt
    "login_failed_of_person": "100/h/key",  # from all addresses together: an attacker needs five of them
    "login_failed_on_known_device": "10/5m/key,40/h/key",
    # Allauth's own limit per address would let one person in an office lock out the others.
    "login": None,
    "reset_password": "20/m/ip,5/m/key",
    "reset_password_from_key": "20/m/ip",
}
ACCOUNT_SESSION_REMEMBER = None  # the person chooses

# Second factors. Who must have one: "none", "all", or roles, separated by commas.
REQUIRE_SECOND_FACTOR = environment.some_of(
    "REQUIRE_SECOND_FACTOR", ("none", "all", "reviewer", "lead", "auditor", "owner", "operator"), "none"
)
MFA_ADAPTER = "reviewqueue.pages.second_factor.SecondFactorAdapter"
MFA_FORMS = {
    "add_webauthn": "reviewqueue.pages.second_factor.AddPasskeyForm",
    "authenticate_webauthn": "reviewqueue.pages.second_factor.UsePasskeyForm",
    "reauthenticate_webauthn": "reviewqueue.pages.second_factor.ConfirmByPasskeyForm",
    "login_webauthn": "reviewqueue.pages.second_factor.SignInByPasskeyForm",
    "edit_webauthn": "reviewqueue.pages.second_factor.RenamePasskeyForm",
}
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_ALLOW_UNVERIFIED_EMAIL = True  # the operator who adds a person has verified the address
MFA_TOTP_ISSUER = "Review Queue"
MFA_TOTP_TOLERANCE = 1  # the clock of a phone can differ by 30 s; a code is still accepted only once
MFA_RATE_LIMITS = {"webauthn_login": "120/m/ip"}  # colleagues share an address; a passkey cannot be guessed

# Single sign-on. An issuer opens it; the roles of people come from the groups that it names.
OIDC_ISSUER = environment.web_address("OIDC_ISSUER")
OIDC_NAME = environment.text("OIDC_NAME", "single sign-on")
OIDC_GROUPS_CLAIM = environment.text("OIDC_GROUPS_CLAIM", "groups")
OIDC_SCOPES = environment.text("OIDC_SCOPES", "openid profile email").split()
OIDC_TRUST_EMAIL = environment.boolean("OIDC_TRUST_EMAIL")
OIDC_ROLES = environment.group_roles("OIDC_ROLES")
SOCIALACCOUNT_ADAPTER = "reviewqueue.pages.sign_on.SignOnAdapter"
SOCIALACCOUNT_EMAIL_VERIFICATION = "none"
SOCIALACCOUNT_STORE_TOKENS = False
SOCIALACCOUNT_REQUESTS_TIMEOUT = 5
SOCIALACCOUNT_PROVIDERS = environment.sign_on_provider(
    OIDC_ISSUER, client=environment.text("OIDC_CLIENT_ID"), scopes=OIDC_SCOPES
)

SESSION_ENGINE = "django.contrib.sessions.backends.db"
SESSION_COOKIE_AGE = 8 * 3600

# --- HTTPS and browsers -----------------------------------------------------------------------------------------------

_HTTPS = BASE_URL.startswith("https://")
# granian serves plain HTTP, so https means that a proxy ends TLS and reports the client's address.
TRUSTED_PROXY_COUNT = environment.number("TRUSTED_PROXY_COUNT", 1 if _HTTPS else 0)
ALLAUTH_TRUSTED_PROXY_COUNT = TRUSTED_PROXY_COUNT
if TRUSTED_PROXY_COUNT:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

SECURE_SSL_REDIRECT = _HTTPS
SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics)$"]  # probes connect to this process, not to the proxy
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if _HTTPS else 0
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _HTTPS
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "reviewqueue.pages.csrf_failure.csrf_failure"
CSRF_TRUSTED_ORIGINS = [BASE_URL]
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SILENCED_SYSTEM_CHECKS = [
    "security.W005",  # HSTS for subdomains is the decision of the domain's owner
    "security.W021",  # so is HSTS preloading
]

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "frame-ancestors": ["'none'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "object-src": ["'none'"],
    }
}

# --- the API ----------------------------------------------------------------------------------------------------------

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "reviewqueue.api.authentication.BearerKey"
    ],  # no sessions: the API needs no CSRF token
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_THROTTLE_CLASSES": ["reviewqueue.api.authentication.CallsPerMinute"],
    "DEFAULT_METADATA_CLASS": None,
    "DEFAULT_SCHEMA_CLASS": "reviewqueue.api.openapi.document.OperationSchema",
    "EXCEPTION_HANDLER": "reviewqueue.api.problems.answer_refusal",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
    "FORMAT_SUFFIX_KWARG": None,
}

SPECTACULAR_SETTINGS: dict[str, Any] = {"OAS_VERSION": "3.1.1", "POSTPROCESSING_HOOKS": []}

# --- request limits ---------------------------------------------------------------------------------------------------

# The reasons: docs/decisions/2026-11-30-limits-without-a-proxy.md.
CACHE_URL = environment.cache_server("CACHE_URL")
REQUEST_HEADER_SECONDS = environment.number("REQUEST_HEADER_SECONDS", 30, min_value=1, max_value=60)
REQUEST_BODY_SECONDS = environment.number("REQUEST_BODY_SECONDS", 30, min_value=1)
REQUEST_BODY_RATE = environment.number("REQUEST_BODY_RATE", 1024, min_value=1)
API_CALLS_PER_MINUTE = environment.number("API_CALLS_PER_MINUTE", 12_000)
FAILED_KEYS_PER_MINUTE = environment.number("FAILED_KEYS_PER_MINUTE", 60)
PAGES_PER_MINUTE = environment.number("PAGES_PER_MINUTE", 1200)
SIGNED_OUT_PAGES_PER_MINUTE = environment.number("SIGNED_OUT_PAGES_PER_MINUTE", 600)

# --- outbound calls ---------------------------------------------------------------------------------------------------

# Private addresses that facts, probes and webhooks can use. The demo's business records are on this machine.
OUTBOUND_ALLOW = environment.network_blocks("OUTBOUND_ALLOW", "" if MODE == "production" else "127.0.0.0/8,::1/128")

# --- tasks ------------------------------------------------------------------------------------------------------------

# The reasons: docs/decisions/2026-11-29-django-q2-supervisor.md.
Q_CLUSTER = {
    "name": "reviewqueue",
    "orm": "default",  # a task is a row of this database, committed or rolled back with its cause
    "cache": "process",
    "workers": 3,  # a slow mail or chat server occupies at most one each
    "queue_limit": 3,  # at most `workers`: rows that stay in the local queue beyond `retry` would run twice
    "bulk": 1,
    "timeout": 60,
    "retry": 300,
    "ack_failures": True,
    "max_attempts": 3,
    "save_limit": -1,
    "catch_up": False,
    "poll": 0.2,
    "guard_cycle": 0.5,
    "recycle": 500,
    "max_rss": 300_000,
    "time_zone": "UTC",
    "ALT_CLUSTERS": {},
}

# --- retention and rollback -------------------------------------------------------------------------------------------

HIGH_WATER_FILE = "" if MODE == "demo" else environment.text("HIGH_WATER_FILE", str(VAR / "high-water.json"))
SNAPSHOT_DAYS = environment.number("SNAPSHOT_DAYS", 90)

# --- metrics and traces -----------------------------------------------------------------------------------------------

METRICS_TOKEN = environment.text("METRICS_TOKEN")

TRACING = environment.boolean("TRACING")

# --- mail, time, log --------------------------------------------------------------------------------------------------

EMAIL_HOST = environment.text("EMAIL_HOST")
EMAIL_PORT = environment.number("EMAIL_PORT", 587)
EMAIL_HOST_USER = environment.text("EMAIL_HOST_USER")
EMAIL_HOST_PASSWORD = environment.text("EMAIL_HOST_PASSWORD")
EMAIL_USE_TLS = environment.boolean("EMAIL_USE_TLS", default=True)
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = SERVER_EMAIL = environment.text(
    "DEFAULT_FROM_EMAIL", f"Review Queue <reviewqueue@{urlsplit(BASE_URL).hostname}>"
)
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if EMAIL_HOST else 'console'}.EmailBackend"

USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = True
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("de", "Deutsch")]  # the offered languages; a test requires their catalogues
FORMAT_MODULE_PATH = "reviewqueue.formats"  # every time that Django formats has its zone

DEFAULT_EXCEPTION_REPORTER = "reviewqueue.operations.error_reports.ErrorReporter"
DEFAULT_EXCEPTION_REPORTER_FILTER = "reviewqueue.operations.error_reports.ErrorReportFilter"
LOG_FORMAT = environment.choice("LOG_FORMAT", ("text", "json"), "text")
ACCESS_LOG = environment.boolean("ACCESS_LOG", default=LOG_FORMAT == "json")
_SENTRY = environment.sentry_handler("SENTRY_DSN")
logging.captureWarnings(LOG_FORMAT == "json")
#: Django logs a refused request under the name of its exception.
_REFUSALS = (
    *(
        "csrf",
        "DisallowedHost",
        "DisallowedRedirect",
        "InvalidSessionKey",
        "RequestDataTooBig",
        "SuspiciousFileOperation",
    ),
    *("SuspiciousMultipartForm", "SuspiciousOperation", "SuspiciousSession", "TooManyFieldsSent", "TooManyFilesSent"),
)
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "{asctime} {levelname} {name} [{request_id}]: {message}", "style": "{"},
        "json": {"()": "reviewqueue.serving.json_log.JsonFormatter"},
    },
    "filters": {
        "request_id": {"()": "reviewqueue.serving.request_ids.AddRequestId"},
        "refusals": {"()": "django.utils.log.CallbackFilter", "callback": log_filters.drop_refusal_traceback},
        "paths": {"()": "django.utils.log.CallbackFilter", "callback": log_filters.shorten_path},
        "repeated_failures": {
            "()": "django.utils.log.CallbackFilter",
            "callback": log_filters.drop_repeated_failure,
        },
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": "json" if LOG_FORMAT == "json" else "line",
            "filters": ["request_id"],
        },
        **_SENTRY,
    },
    "root": {"handlers": ["stderr", *_SENTRY], "level": environment.text("LOG_LEVEL", "INFO").upper()},
    "loggers": {
        # Not below INFO: at DEBUG a template logs its whole context, with unsent input.
        "django": {"handlers": [], "propagate": True, "level": "INFO"},
        "django.request": {"filters": ["paths", "refusals"]},
        **{f"django.security.{name}": {"filters": ["paths", "refusals"]} for name in _REFUSALS},
        "django.server": {"handlers": [], "propagate": True},
        "httpcore": {"level": "WARNING"},  # at DEBUG it logs every header of a response
        "apprise": {"level": "CRITICAL"},  # its warnings quote addresses, which contain secrets
        "urllib3": {"level": "WARNING"},  # at DEBUG it logs the addresses of chat channels, which contain secrets
        "django-q": {"level": "WARNING", "filters": ["repeated_failures"]},  # at INFO it logs every task twice
        "reviewqueue.access": {"level": "INFO" if ACCESS_LOG else "WARNING"},
    },
}
