"""The WSGI application that gunicorn serves."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "weave_admin.settings")

application = get_wsgi_application()

from recovery.schema import exit_unless_schema_matches  # noqa: E402 - the settings come first

exit_unless_schema_matches()
