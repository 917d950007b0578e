"""The Celery application. The tasks themselves are `recovery.tasks`."""

import os
from typing import Any

from celery import Celery
from celery.signals import setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weave_admin.settings")

app = Celery("weave")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def _keep_django_logging(**kwargs: Any) -> None:
    """A receiver of this signal is what stops Celery from replacing the log settings of Django."""
