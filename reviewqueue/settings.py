"""Every setting of the product, read from the environment (README, "Settings"; `environment` does the reading).

Three modes (`REVIEWQUEUE_MODE`): `production` refuses to start without `SECRET_KEY`; `demo` (set by `manage.py demo`)
makes one in `var/` and has its own database there; `test` is for the test suite. There is no debug mode: errors go to
the log.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from reviewqueue import environment
from reviewqueue.operations import file_permissions, log_filters

ROOT = Path(__file__).resolve().parent.parent
VAR = ROOT / "var"

file_permissions.keep_new_files_private()

MODE = environment.one_of("REVIEWQUEUE_MODE", environment.MODES, "production")
PROCESS = environment.one_of("REVIEWQUEUE_PROCESS", environment.PROCESSES, "command")
HOST = environment.text("HOST", "127.0.0.1")
PORT = environment.number("PORT", 8000, most=65_535)
BASE_URL = environment.base_url(f"http://localhost:{PORT}")

DEBUG = False
SECRET_KEY = environment.secret_key(mode=MODE, var=VAR)
SECRET_KEY_FALLBACKS = environment.words("SECRET_KEY_FALLBACKS")
ALLOWED_HOSTS = environment.words("ALLOWED_HOSTS") or [
    urlsplit(BASE_URL).hostname or "",
    "localhost",
    "127.0.0.1",
    "[::1]",
]

# --- what is installed ------------------------------------------------------------------------------------------------

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
    "csp",
    "django_htmx",
    "django_q",
    "rest_framework",
    "drf_spectacular_sidecar",  # the API's page needs nothing from elsewhere
]

MIDDLEWARE = [
    "reviewqueue.serving.request_ids.identify_requests",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "reviewqueue.middleware.Compressed",
    "reviewqueue.middleware.keep_out_of_caches",
    "reviewqueue.middleware.refuse_unstorable",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "reviewqueue.serving.rate_limits.limit_pages",
    "reviewqueue.middleware.RequireLogin",  # closed by default; a test lists the open paths
    "django.contrib.messages.middleware.MessageMiddleware",
    "reviewqueue.text.times.in_the_readers_zone",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "reviewqueue.urls"
WSGI_APPLICATION = "reviewqueue.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
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

# --- where things are kept --------------------------------------------------------------------------------------------

WEB_PROCESSES = environment.number("WEB_PROCESSES", os.cpu_count() or 1, least=1)
WEB_THREADS = environment.number("WEB_THREADS", 12, least=1)  # of each process
LONG_POLLS = environment.number("LONG_POLLS", 32)  # of each process; one that waits holds none of WEB_THREADS
DATABASES: dict[str, dict[str, Any]] = {
    # The address holds a password: no setting of its own, which an error report or `diffsettings` would print.
    "default": environment.database(
        environment.text("DATABASE_URL")
        or environment.own_database(VAR, "demo.sqlite3" if MODE == "demo" else "reviewqueue.sqlite3"),
        process=PROCESS,
        pool_size=WEB_THREADS,
    )
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CACHES = {
    # Limits on sign-in attempts hold across processes and nodes only if the counts are shared.
    "default": {"BACKEND": "django.core.cache.backends.db.DatabaseCache", "LOCATION": "reviewqueue_cache"},
    # django-q2 writes its own status twice a second; we watch our heartbeat instead, so it stays in the process.
    "process": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
}

# Bytes that agents keep beside their checkpoints. They belong to the backup, as the database does.
MEDIA_ROOT = environment.text("FILES_DIR") or VAR / ("demo-files" if MODE == "demo" else "files")
CHECKPOINT_FILE_BYTES = environment.number("CHECKPOINT_FILE_MB", 64, most=10_000) * 1024 * 1024
STORAGES: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "reviewqueue.operations.storage.DurableStorage",
        # What agents write is about people: for this user's eyes only.
        "OPTIONS": {"file_permissions_mode": 0o600, "directory_permissions_mode": 0o700},
    },
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

STATIC_URL = "/static/"
STATICFILES_DIRS = [ROOT / "static"]
WHITENOISE_USE_FINDERS = True  # no collectstatic: a fresh clone serves its own files
WHITENOISE_AUTOREFRESH = False

# --- who people are ---------------------------------------------------------------------------------------------------

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
ACCOUNT_EMAIL_VERIFICATION = "none"  # an operator who adds a person vouches for the address
ACCOUNT_CONFIRM_EMAIL_ON_GET = False  # mail scanners follow links
ACCOUNT_LOGOUT_ON_GET = False
ACCOUNT_LOGOUT_REDIRECT_URL = "account_login"
ACCOUNT_LOGOUT_ON_PASSWORD_CHANGE = True
ACCOUNT_PREVENT_ENUMERATION = True
ACCOUNT_RATE_LIMITS = {
    # Wrong passwords, as `sign_in` counts them. "key" is the client's address (IPv6: its /64) with the person.
    "login_failed": "5/5m/key,20/h/key",
    "login_failed_of_address": "10/m/key",  # the address alone, over all people; not for a person's first try there
    "login_failed_of_person": "100/h/key",  # from all addresses together: a guesser needs five of them
    "login_failed_on_known_device": "10/5m/key,40/h/key",
    # Allauth's own count of all sign-ins of an address would let one visitor of an office lock out the others.
    "login": None,
}
ACCOUNT_SESSION_REMEMBER = None  # the person ticks it, for SESSION_COOKIE_AGE

SESSION_ENGINE = "django.contrib.sessions.backends.db"
SESSION_COOKIE_AGE = 8 * 3600

# --- the browser's side -----------------------------------------------------------------------------------------------

_HTTPS = BASE_URL.startswith("https://")
# granian speaks plain HTTP, so https means that a proxy of yours ends it and tells us about the client.
TRUSTED_PROXY_COUNT = environment.number("TRUSTED_PROXY_COUNT", 1 if _HTTPS else 0)
ALLAUTH_TRUSTED_PROXY_COUNT = TRUSTED_PROXY_COUNT
if TRUSTED_PROXY_COUNT:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

SECURE_SSL_REDIRECT = _HTTPS
SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics)$"]  # a probe speaks to this process itself, not to the proxy
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if _HTTPS else 0
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _HTTPS
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "reviewqueue.pages.csrf_failure.csrf_failure"
CSRF_TRUSTED_ORIGINS = [BASE_URL]
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SILENCED_SYSTEM_CHECKS = [
    "security.W005",  # the name's subdomains belong to whoever owns the name, not to us
    "security.W021",  # nor is preloading it ours to choose
]

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "frame-ancestors": ["'none'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
    }
}

# --- the API ----------------------------------------------------------------------------------------------------------

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["reviewqueue.api.authentication.BearerKey"],  # a session is no authority here
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_THROTTLE_CLASSES": ["reviewqueue.api.throttling.CallsPerMinute"],
    "DEFAULT_PARSER_CLASSES": ["reviewqueue.api.parsers.ExactParser"],
    "DEFAULT_RENDERER_CLASSES": ["reviewqueue.api.parsers.ExactRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "reviewqueue.api.parsers.JsonAlways",
    "DEFAULT_METADATA_CLASS": None,
    "DEFAULT_SCHEMA_CLASS": "reviewqueue.api.openapi.document.OperationSchema",
    "EXCEPTION_HANDLER": "reviewqueue.api.problems.answer_refusal",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,
    "FORMAT_SUFFIX_KWARG": None,
}

SPECTACULAR_SETTINGS: dict[str, Any] = {"OAS_VERSION": "3.1.1", "POSTPROCESSING_HOOKS": []}

# --- limits of requests -----------------------------------------------------------------------------------------------

# The reasons: docs/decisions/2026-11-30-limits-without-a-proxy.md.
REQUEST_HEADER_SECONDS = environment.number("REQUEST_HEADER_SECONDS", 30, least=1, most=60)
REQUEST_BODY_SECONDS = environment.number("REQUEST_BODY_SECONDS", 30, least=1)
REQUEST_BODY_RATE = environment.number("REQUEST_BODY_RATE", 1024, least=1)
API_CALLS_PER_MINUTE = environment.number("API_CALLS_PER_MINUTE", 12_000)
FAILED_KEYS_PER_MINUTE = environment.number("FAILED_KEYS_PER_MINUTE", 60)
PAGES_PER_MINUTE = environment.number("PAGES_PER_MINUTE", 1200)
SIGNED_OUT_PAGES_PER_MINUTE = environment.number("SIGNED_OUT_PAGES_PER_MINUTE", 600)

# --- outbound calls ---------------------------------------------------------------------------------------------------

# Addresses that are not public but may be called: to check facts, and for webhooks. The demo's records live on this machine.
OUTBOUND_ALLOW = environment.blocks("OUTBOUND_ALLOW", "" if MODE == "production" else "127.0.0.0/8,::1/128")

# --- tasks ------------------------------------------------------------------------------------------------------------

# The reasons: docs/decisions/2026-11-29-tasks-and-their-supervisor.md.
Q_CLUSTER = {
    "name": "reviewqueue",
    "orm": "default",  # a task is a row of our own database: it commits and rolls back with what it follows from
    "cache": "process",
    "workers": 2,
    "queue_limit": 2,  # rows pulled into the local queue past `retry` would run twice
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

# --- what is forgotten ------------------------------------------------------------------------------------------------

HIGH_WATER_FILE = "" if MODE == "demo" else environment.text("HIGH_WATER_FILE", str(VAR / "high-water.json"))
SNAPSHOT_DAYS = environment.number("SNAPSHOT_DAYS", 90)

# --- what machines watch ---------------------------------------------------------------------------------------------

METRICS_TOKEN = environment.text("METRICS_TOKEN")

# --- mail, time, log --------------------------------------------------------------------------------------------------

EMAIL_HOST = environment.text("EMAIL_HOST")
EMAIL_PORT = environment.number("EMAIL_PORT", 587)
EMAIL_HOST_USER = environment.text("EMAIL_HOST_USER")
EMAIL_HOST_PASSWORD = environment.text("EMAIL_HOST_PASSWORD")
EMAIL_USE_TLS = environment.switch("EMAIL_USE_TLS", default=True)
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = SERVER_EMAIL = environment.text(
    "DEFAULT_FROM_EMAIL", f"Review Queue <reviewqueue@{urlsplit(BASE_URL).hostname}>"
)
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if EMAIL_HOST else 'console'}.EmailBackend"

USE_TZ = True
TIME_ZONE = "UTC"
USE_I18N = True
LANGUAGE_CODE = "en"

DEFAULT_EXCEPTION_REPORTER = "reviewqueue.operations.error_reports.ErrorReporter"
DEFAULT_EXCEPTION_REPORTER_FILTER = "reviewqueue.operations.error_reports.ErrorReportFilter"
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name} [{request_id}]: {message}", "style": "{"}},
    "filters": {
        "request_id": {"()": "reviewqueue.serving.request_ids.AddRequestId"},
        "refusals": {"()": "django.utils.log.CallbackFilter", "callback": log_filters.without_traceback_of_refusals},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["request_id"]}},
    "root": {"handlers": ["stderr"], "level": environment.text("LOG_LEVEL", "INFO").upper()},
    "loggers": {
        # Not below INFO: at DEBUG a template logs its whole context, with what a person typed.
        "django": {"handlers": [], "propagate": True, "level": "INFO"},
        "django.request": {"filters": ["refusals"]},
        "django.server": {"handlers": [], "propagate": True},
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},  # at DEBUG it logs every header of a response
        "django-q": {"level": "WARNING"},  # it tells of every task, twice
    },
}
