"""`python -m recovery.dossier verify FILE`: exit status 0 intact, 1 changed, 2 not a dossier or not readable."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from recovery.dossier.check import Unreadable, _, verify


def main(words: list[str] | None = None) -> int:
    """Prints what was found, the changes first."""
    parser = argparse.ArgumentParser(prog="python -m recovery.dossier")
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("verify", help=_("check a dossier, HTML or ZIP, without database or network"))
    command.add_argument("file", type=Path)
    command.add_argument("--head", default="", help=_("the head of the audit as the system shows it: COUNT:HASH"))
    asked = parser.parse_args(words)
    try:
        report = verify(asked.file, head=asked.head)
    except (Unreadable, OSError) as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    lines = [
        *report.problems,
        _("%(members)d files, %(entries)d audit entries") % {"members": report.members, "entries": report.entries},
        _("head %(head)s") % {"head": report.head},
        _("seal %(seal)s") % {"seal": report.seal},
        _("CHANGED") if report.problems else _("INTACT"),
    ]
    print("\n".join(lines))  # noqa: T201
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
