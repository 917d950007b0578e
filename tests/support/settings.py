"""The product's settings on a test database: SQLite, or the one that TEST_DATABASE_URL names."""

import os
import secrets

os.environ.setdefault("SECRET_KEY", "only-for-tests")

from weave_admin.databases import database
from weave_admin.settings import *  # noqa: F403
from weave_admin.settings import STORAGES, VAR_DIR

_url = os.environ.get("TEST_DATABASE_URL", "")
DATABASES = {"default": database(_url or "sqlite:///unused")}
if not _url:
    # A file and not memory, so that several connections, threads and processes meet in it. Its name is used once: runs
    # side by side do not share it, and none takes up the write-ahead log that a killed run left.
    _folder = VAR_DIR / "test"
    _folder.mkdir(exist_ok=True)
    _name = f"{os.getpid()}-{secrets.token_hex(4)}.sqlite3"
    DATABASES["default"] |= {"NAME": str(_folder / f"unused-{_name}"), "TEST": {"NAME": str(_folder / _name)}}
    # Nobody needs a test database after a power failure.
    _options = DATABASES["default"]["OPTIONS"]
    _options["init_command"] = _options["init_command"].replace("synchronous = FULL", "synchronous = OFF")

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# The manifest exists after collectstatic only, which tests do not run.
STORAGES = STORAGES | {"staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}}
WHITENOISE_AUTOREFRESH = True
# A message that a test did not ask for would start work behind its back.
CELERY_BROKER_URL = "memory://"
CELERY_BROKER_TRANSPORT = None
CELERY_BROKER_TRANSPORT_OPTIONS = {}
LOGGING_CONFIG = None  # records reach pytest's own capture, unformatted
