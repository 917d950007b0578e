"""Settings. Everything an operator may choose comes from the environment: docs/operations.md has the table."""

from pathlib import Path
from typing import Any

import environ
from csp.constants import NONE, SELF
from django.utils.translation import gettext_lazy

from weave_admin.databases import database
from weave_admin.logs import logging_settings
from weave_admin.secret_key import kept_secret_key

env = environ.Env()

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = Path(env.str("VAR_DIR", default=str(BASE_DIR / "var"))).absolute()
VAR_DIR.mkdir(parents=True, exist_ok=True)

DEBUG = env.bool("DEBUG", default=False)
SECRET_KEY = env.str("SECRET_KEY", default="") or kept_secret_key(VAR_DIR / "secret_key")
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])

# --- Processes that `manage.py serve` starts

HOST = env.str("HOST", default="127.0.0.1")
PORT = env.int("PORT", default=8000)
WEB_PROCESSES = env.int("WEB_PROCESSES", default=1)
WEB_THREADS = env.int("WEB_THREADS", default=8)
WORKER_PROCESSES = env.int("WORKER_PROCESSES", default=2)

# --- Application

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "guardian",
    "django_htmx",
    "template_partials",
    "recovery",
    "recovery.console",  # for its template tags
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "recovery.console.middleware.ReaderZone",
    # Innermost: turns a domain error into a page or a partial while user, language and htmx are known.
    "recovery.console.middleware.ErrorPages",
]

ROOT_URLCONF = "weave_admin.urls"
WSGI_APPLICATION = "weave_admin.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

WEAVE_HANDLERS = env.list("WEAVE_HANDLERS", default=[])
"""Modules with in-process handlers (`@handler(...)`), imported by every worker."""
WEAVE_WORKER_USER = env.str("WEAVE_WORKER_USER", default="")
"""The account that these handlers work as: its tasks:work and queues:use decide at which queues."""

# --- Evidence

EVIDENCE_DIR = Path(env.str("EVIDENCE_DIR", default=str(VAR_DIR / "evidence"))).absolute()
EVIDENCE_MAX_FILE_BYTES = env.int("EVIDENCE_MAX_FILE_BYTES", default=25 * 1024 * 1024)
EVIDENCE_MAX_FILES = env.int("EVIDENCE_MAX_FILES", default=20)
"""Of one bundle."""

# --- Database

DATABASES = {"default": database(env.str("DATABASE_URL", default=f"sqlite:///{VAR_DIR / 'weave.sqlite3'}"))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
# Table and column comments are there for MariaDB; that SQLite leaves them out is no news at every start.
# The third warns of unique text beyond 255 characters, which InnoDB has long allowed up to 3072 bytes.
SILENCED_SYSTEM_CHECKS = ["fields.W163", "models.W046", "mysql.W003"]

# --- Accounts

AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "guardian.backends.ObjectPermissionBackend",
]
ANONYMOUS_USER_NAME = None  # guardian would otherwise keep an account for people who are not signed in
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

# --- Transport and browser

# A certificate of its own, or `TLS=on` behind a proxy that ends TLS and sets X-Forwarded-Proto.
TLS_CERTIFICATE = env.str("TLS_CERTIFICATE", default="")
TLS_KEY = env.str("TLS_KEY", default="")
TLS = bool(TLS_CERTIFICATE) or env.bool("TLS", default=False)

SECURE_SSL_REDIRECT = SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = TLS
if TLS:
    SECURE_HSTS_SECONDS = 365 * 24 * 3600
    SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = True
    if not TLS_CERTIFICATE:  # only a proxy may say so; a client that speaks to us directly must not
        SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_AGE = 12 * 3600  # seconds: a shift; whoever changes their password ends their other sessions at once
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF],
        "connect-src": [SELF],
        "font-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    },
}

STATIC_URL = "static/"
STATIC_ROOT = VAR_DIR / "static"
STATICFILES_DIRS = [path for path in [BASE_DIR / "static"] if path.is_dir()]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"  # nothing is mailed

# --- Language and time

LANGUAGE_CODE = "en"
LANGUAGES = [("en", gettext_lazy("English")), ("zh-hans", gettext_lazy("Simplified Chinese"))]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_TZ = True
TIME_ZONE = "UTC"

# --- Workers

BROKER_URL = env.str("BROKER_URL", default="")
CELERY_BROKER_TRANSPORT: str | None = None  # by the URL
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = {}
if BROKER_URL:
    CELERY_BROKER_URL = BROKER_URL
    if BROKER_URL.startswith(("amqp://", "amqps://")):
        # Replicated queues, and a publish that returns only when they have the message. Without retries of the
        # connection: a call that has been committed must not wait for a broker that is down. Workers still reconnect.
        CELERY_BROKER_TRANSPORT_OPTIONS = {"confirm_publish": True, "max_retries": 0}
        CELERY_TASK_DEFAULT_QUEUE_TYPE = CELERY_TASK_CREATE_MISSING_QUEUE_TYPE = "quorum"
else:
    _folder = VAR_DIR / "broker"
    for _name in ("messages", "control"):
        (_folder / _name).mkdir(parents=True, exist_ok=True)
    CELERY_BROKER_URL = "filesystem://"
    CELERY_BROKER_TRANSPORT = "weave_admin.broker:Transport"
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(_folder / "messages"),
        "data_folder_out": str(_folder / "messages"),
        "control_folder": str(_folder / "control"),
        "polling_interval": 0.1,
    }
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# Installations that share a broker differ in this.
CELERY_TASK_DEFAULT_QUEUE = env.str("BROKER_QUEUE", default="weave")
# Apart from the engine's own work: handlers that take minutes must not keep the sweep waiting.
CELERY_TASK_ROUTES = {"recovery.tasks.work": {"queue": f"{CELERY_TASK_DEFAULT_QUEUE}-handlers"}}
CELERY_TASK_IGNORE_RESULT = True  # results are rows of ours
# A task may run twice but is not lost with its worker; nobody reserves what another worker could run now.
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULER = "celery.beat:Scheduler"  # in memory: a sweep every second has nothing to remember
CELERY_BEAT_SCHEDULE = {
    # What piles up while no worker runs is bounded, and clocks of different hosts may differ by less than that.
    # Of sweeps that come together only one goes round (recovery.engine.sweep.tick).
    "sweep": {"task": "recovery.tasks.sweep", "schedule": 1.0, "options": {"expires": 60.0}},
}

# --- Logs

LOGGING = logging_settings(env.str("LOG_LEVEL", default="INFO").upper())
