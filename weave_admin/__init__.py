"""Settings and entry points; no domain code.

The Celery application is imported here so that `shared_task` binds to it in every process.
"""

from weave_admin.celery import app as celery_app

__all__ = ["celery_app"]
