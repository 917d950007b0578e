"""`weave`: the command line. The address comes from WEAVE_URL, the credential from WEAVE_TOKEN.

Exit status: 0 done; 1 refused by a rule, or verification found something; 2 the command line or a value is not valid;
3 no credential, no permission, or nothing there; 4 the server cannot be reached, is busy, broken or incompatible; 5 the
answer was lost and whether it was committed is unknown (ask with `weave receipt KEY`).
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from weave_client import audit, calls, exact, printing
from weave_client.client import Client
from weave_client.commands import COMMANDS, STATEMENTS, Command, of_instance, of_step, of_task
from weave_client.errors import AnswerLost, NotFound, PermissionDenied, Refused, Unauthenticated, WeaveError
from weave_client.shapes import Row
from weave_client.words import NAMES, WORDS

DONE, REFUSED, INVALID, NOT_ALLOWED, UNAVAILABLE, LOST = range(6)
"""Exit statuses."""


class Invalid(Exception):
    """The command line cannot be followed; the message says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; answers the exit status."""
    asked = _parser().parse_args(arguments)
    try:
        with _client() as client:
            status: int = asked.run(client, asked)
            return status
    except Refused as error:
        _fail(asked, error, printing.refusal(error))
        return _status(error)
    except WeaveError as error:
        _fail(asked, error, [str(error)])
        return LOST if isinstance(error, AnswerLost) else UNAVAILABLE
    except Invalid as error:
        _fail(asked, error, [str(error)])
        return INVALID
    except KeyboardInterrupt:
        return 130


def _status(error: Refused) -> int:
    if isinstance(error, Unauthenticated | PermissionDenied | NotFound):
        return NOT_ALLOWED
    if error.status >= 500:
        return UNAVAILABLE
    return REFUSED if error.status == 409 else INVALID


def _client() -> Client:
    url, token = os.environ.get("WEAVE_URL", ""), os.environ.get("WEAVE_TOKEN", "")
    if not url or not token:
        raise Invalid("Set WEAVE_URL to the server's address and WEAVE_TOKEN to your credential.")
    return Client(url, token)


def _say(asked: argparse.Namespace, value: Any, lines: Iterable[str]) -> None:
    if asked.json:
        sys.stdout.write(exact.dumps(printing.plain(value)) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in lines)


def _fail(asked: argparse.Namespace, error: Exception, lines: Iterable[str]) -> None:
    if asked.json:
        problem = error.problem if isinstance(error, Refused) else {"detail": str(error), "code": None}
        sys.stdout.write(exact.dumps(problem) + "\n")
    else:
        sys.stderr.writelines(f"{line}\n" for line in lines)


# Commands


def _list(client: Client, asked: argparse.Namespace) -> int:
    filters = {name: getattr(asked, name) for name in ("status", "definition", "business_key", "review_reason")}
    call = calls.list_instances(**filters, limit=min(asked.limit, 200))
    rows = list(itertools.islice(client.rows(call), asked.limit))
    _say(asked, rows, printing.instances(rows))
    return DONE


def _show(client: Client, asked: argparse.Namespace) -> int:
    row = client.instance(asked.instance)
    _say(asked, row, printing.instance(row))
    return DONE


def _explain(client: Client, asked: argparse.Namespace) -> int:
    explained = client.explain(asked.instance, step_key=asked.step, task_id=asked.task)
    _say(asked, explained, printing.explanation(explained))
    return DONE


def _recover(client: Client, asked: argparse.Namespace) -> int:
    command = _command(client, asked)
    if asked.dry_run:
        seen = client.dry_run(asked.instance, command)
        _say(asked, seen, printing.preview(seen))
        return DONE if seen.allowed else REFUSED
    key = asked.key or calls.new_key()
    # Told before it is sent: whatever happens now, it can be asked for.
    sys.stderr.write(f"Operation key: {key}\n")
    receipt = client.recover(asked.instance, command, key=key)
    _say(asked, receipt, printing.receipt(receipt))
    return DONE


def _command(client: Client, asked: argparse.Namespace) -> Command:
    """The command as told; revisions that are not given are those that are read now."""
    instance = client.instance(asked.instance)
    told: dict[str, Any] = {"reason": asked.reason, "evidence_ref": asked.evidence}
    told[STATEMENTS[asked.operation]] = True
    if asked.operation == "continue":
        told |= of_instance(instance)
    elif asked.operation == "review-task":
        told |= of_task(instance, _task(client, asked))
    else:
        try:
            told |= of_step(instance, asked.step)
        except LookupError as missing:
            raise Invalid(str(missing)) from None
    for name in ("outcome", "result", "output"):
        if hasattr(asked, name):
            told[name] = getattr(asked, name)
    given = {name: getattr(asked, name, None) for name in _FRESHNESS}
    return COMMANDS[asked.operation](**told | {name: value for name, value in given.items() if value is not None})


_FRESHNESS = ("expected_revision", "expected_step_revision", "expected_task_revision", "activation_id")


def _task(client: Client, asked: argparse.Namespace) -> Row:
    for task in client.history_of(asked.instance, "tasks"):
        if task["id"] == asked.task:
            return task
    raise Invalid(f"The instance has no task {asked.task!r}.")


def _receipt(client: Client, asked: argparse.Namespace) -> int:
    receipt = client.receipt(asked.key)
    _say(asked, receipt, printing.receipt(receipt))
    return DONE


def _verify(client: Client, asked: argparse.Namespace) -> int:
    receipt = client.receipt(asked.receipt) if asked.receipt else None
    instance_id = receipt.instance_id if receipt else asked.instance
    if instance_id is None or (receipt and "audit_id" not in receipt.data):
        raise Invalid("The receipt names no audit entry: it is not of a recovery or control operation.")
    instance = client.instance(instance_id)
    entries = list(client.audit(instance_id))
    problems = audit.verify(instance, entries)
    if receipt:
        problems += audit.verify_receipt(receipt, entries)
    what = f"{len(entries)} audit entries of {instance_id}" + (
        f" and the receipt of {asked.receipt}" if receipt else ""
    )
    lines = problems or [
        f"{what}: hashed again here, every hash fits, the last one is the one that the instance holds."
    ]
    result = {"instance_id": instance_id, "entries": len(entries), "head": instance["audit_head"], "problems": problems}
    _say(asked, result, map(printing.shown, lines))
    return REFUSED if problems else DONE


# The command line


def _json(text: str) -> Any:
    """JSON, or @file."""
    try:
        return exact.loads(Path(text[1:]).read_bytes() if text.startswith("@") else text)
    except (ValueError, OSError) as error:
        raise argparse.ArgumentTypeError(f"no JSON: {error}") from None


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("a whole number from 1")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="weave",
        description="Reads and recovers workflow instances. WEAVE_URL: address of the server; WEAVE_TOKEN: credential.",
        epilog=__doc__.partition("\n\n")[2] if __doc__ else None,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[Client, argparse.Namespace], int], about: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=about, description=about)
        return _finish(made, run)

    listed = add("list", _list, "List instances, the newest first.")
    listed.add_argument("--status", choices=list(WORDS["InstanceStatus"]))
    listed.add_argument("--definition")
    listed.add_argument("--business-key")
    listed.add_argument("--review-reason", choices=list(WORDS["ReviewReason"]))
    listed.add_argument("--limit", type=_count, default=50, help="rows at most (50)")

    add("show", _show, "Show an instance with its gate and its steps.").add_argument("instance")

    explained = add("explain", _explain, "Explain what may be decided, and which rules stand against it.")
    explained.add_argument("instance")
    explained.add_argument("--step", help="this step only")
    explained.add_argument("--task", help="the step of this task only")

    about = "Decide: one of the six operations."
    operations = commands.add_parser("recover", help=about, description=about).add_subparsers(
        required=True, metavar="OPERATION", dest="operation"
    )
    for slug in COMMANDS:
        _add_operation(operations.add_parser(slug, help=NAMES[slug], description=COMMANDS[slug].__doc__), slug)

    add("receipt", _receipt, "Read the frozen receipt of an operation key.").add_argument("key")

    about = "Hash an instance's audit entries again, here, and follow their chain; compare a receipt with its entry."
    target = add("verify", _verify, about).add_mutually_exclusive_group(required=True)
    target.add_argument("instance", nargs="?")
    target.add_argument("--receipt", metavar="KEY", help="the receipt of this key, and the chain of its instance")
    return parser


def _finish(
    parser: argparse.ArgumentParser, run: Callable[[Client, argparse.Namespace], int]
) -> argparse.ArgumentParser:
    parser.add_argument("--json", action="store_true", help="print JSON in the server's shapes")
    parser.set_defaults(run=run)
    return parser


def _add_operation(parser: argparse.ArgumentParser, slug: str) -> None:
    _finish(parser, _recover)
    parser.add_argument("instance")
    if slug == "review-task":
        parser.add_argument("task", help="id of the task")
        parser.add_argument("--expected-task-revision", help="as you saw it; else as it is now")
    elif slug != "continue":
        parser.add_argument("step", help="key of the step")
        parser.add_argument("--activation-id", help="as you saw it; else as it is now")
        parser.add_argument("--expected-step-revision", help="as you saw it; else as it is now")
    parser.add_argument("--expected-revision", help="as you saw it; else as it is now")
    parser.add_argument("--reason", required=True)
    parser.add_argument("--evidence", required=True, help="reference to where the evidence is kept")
    if slug in ("review-task", "resolve-step"):
        parser.add_argument("--outcome", required=True, choices=("SUCCEEDED", "FAILED"))
        value = "result" if slug == "review-task" else "output"
        parser.add_argument(f"--{value}", required=True, type=_json, help="JSON, or @FILE")
    statement = STATEMENTS[slug].replace("_", "-")
    parser.add_argument(
        f"--{statement}", required=True, action="store_true", help="your statement; say it if you know it"
    )
    parser.add_argument("--key", help="operation key; a new one is made and told otherwise")
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and change nothing")


if __name__ == "__main__":
    sys.exit(main())
