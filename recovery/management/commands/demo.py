"""`manage.py demo`: the whole product on a database of its own, with people and payouts to try it on."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import CommandError, CommandParser
from django.db import connection

from recovery.demo import PEOPLE
from recovery.schema import SchemaCommand
from recovery.supervisor import Process, StackFailure, run_stack

WHAT_FOR = {
    "operator": "decides recoveries",
    "auditor": "reads what was decided",
    "administrator": "gives and takes rights",
}
"""The accounts that people sign in with; their passwords are in the demo's provisioning file."""

LEFT_OUT = ("DATABASE_URL", "BROKER_URL", "HOST", "TLS", "TLS_CERTIFICATE", "TLS_KEY")
"""Settings that would lead the demo's accounts, whose passwords everybody knows, to other data or other machines."""


class Command(SchemaCommand):
    help = "Runs the product with a scenario set and three accounts, on a database of its own, until Ctrl-C."
    requires_matching_schema = False  # the stack migrates first
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--desk", action="store_true", help="(internal) be the desk that starts the payouts")

    def handle(self, *args: Any, desk: bool, **options: Any) -> None:
        if desk:
            from recovery.demo.desk import Desk, set_up

            set_up()
            Desk().run()
        elif settings.VAR_DIR.name != "demo" or any(name in os.environ for name in LEFT_OUT):
            self._in_a_folder_of_its_own()
        else:
            try:
                run_stack(
                    extra_env={"WEAVE_HANDLERS": "recovery.demo.bank", "WEAVE_WORKER_USER": "bank-worker"},
                    extra_processes=[Process(name="desk", command=[sys.executable, "manage.py", "demo", "--desk"])],
                    on_ready=self._welcome,
                )
            except StackFailure as failure:
                raise CommandError(str(failure)) from None

    def _in_a_folder_of_its_own(self) -> None:
        """Starts again with var/demo, on loopback: its accounts reach nothing else, and nobody else them."""
        kept = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
        folder: Path = settings.VAR_DIR / "demo"
        os.execve(sys.executable, [sys.executable, "manage.py", "demo"], {**kept, "VAR_DIR": str(folder)})  # noqa: S606

    def _welcome(self, address: str) -> None:
        people = get_user_model().objects.filter(username=list(WHAT_FOR)[-1])
        while not people.exists():
            time.sleep(0.2)
        connection.close()
        self.stdout.write(f"Weave's demo runs at {address}\n")
        passwords = {person["username"]: person["password"] for person in json.loads(PEOPLE.read_bytes())["users"]}
        for username, what in WHAT_FOR.items():
            self.stdout.write(f"  {username:14} password {passwords[username]:20} {what}")
        self.stdout.write(
            "\nThe bank is failing just now; within a minute the review queue fills. Ctrl-C ends it all.\n"
        )
        self.stdout.flush()
