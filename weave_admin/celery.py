"""The Celery application. The tasks themselves are `recovery.tasks`."""

import os
import signal
from typing import Any

from celery import Celery
from celery.signals import beat_init, setup_logging, worker_init, worker_process_init

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weave_admin.settings")

app = Celery("weave")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def _keep_django_logging(**kwargs: Any) -> None:
    """A receiver of this signal is what stops Celery from replacing the log settings of Django."""


@worker_init.connect
@beat_init.connect
def _refuse_another_schema(**kwargs: Any) -> None:
    from recovery.schema import exit_unless_schema_matches

    exit_unless_schema_matches()


@worker_process_init.connect
def _end_with_the_worker(**kwargs: Any) -> None:
    """Without this, a pool process whose worker was killed would finish the task in hand, unseen by anybody."""
    from recovery.supervisor import die_with_parent

    die_with_parent(signal.SIGKILL)
