"""A definition document, checked as a whole before anything is locked.

A check is a generator of problems: the path below the value (“” for the value itself) and a sentence. So checks nest,
and every problem of a document is told at once, by its field's path: "root.children.0.policy.backoff_ms".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from django.utils.translation import gettext as _
from jsonpointer import JsonPointer, JsonPointerException

from recovery import contracts, exact_json
from recovery.errors import ValidationFailed
from recovery.operations import commands
from recovery.states import LEAVES, StepKind

MAX_STEPS = 5_000
MAX_ATTEMPTS = 100
MAX_ROUNDS = 100_000
MAX_MS = 100 * 366 * 24 * 60 * 60 * 1_000
"""A century: no date that is reckoned with it leaves the calendar."""
MAX_KEY = 191
"""Characters of a business, concurrency or correlation key."""
TOLD = 100
"""Problems told at once."""

Problems = Iterator[tuple[str, str]]
Check = Callable[[Any], Problems]


@dataclass(frozen=True)
class Node:
    """One step of a checked tree. `fields`: the node as sent; `path`: where it stands in the document."""

    key: str
    kind: str
    parent: str | None
    position: int
    path: str
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class DefinitionDocument:
    """A checked document. `nodes` by key in tree order, parents first."""

    name: str
    input_schema: Any
    max_duration_ms: int
    nodes: Mapping[str, Node]
    digest: str
    """SHA-256 of graph, contracts and limits: what makes two versions the same."""


def check(document: Any) -> DefinitionDocument:
    """Reads and checks a whole document, except for what only the database knows (its queues).

    Raises ValidationFailed with the problems of each field under its path.
    """
    if problem := exact_json.problem(document):
        refuse([("", problem)])
    if len(exact_json.utf8(document)) > exact_json.MAX_BYTES:
        refuse([("", _("Larger than %(limit)d bytes.") % {"limit": exact_json.MAX_BYTES})])
    refuse(_members(document, _DOCUMENT, required=_DOCUMENT))
    nodes: dict[str, Node] = {}
    refuse(_tree(document["root"], nodes))
    refuse(_sources(nodes))
    content = {name: document[name] for name in ("input_schema", "max_duration_ms", "root")}
    return DefinitionDocument(
        document["name"], document["input_schema"], document["max_duration_ms"], nodes, exact_json.digest(content)
    )


def refuse(problems: Iterable[tuple[str, str]]) -> None:
    """Raises ValidationFailed if there is a problem; tells the first `TOLD`."""
    fields: dict[str, list[str]] = {}
    for path, sentence in islice(problems, TOLD):
        fields.setdefault(path or "document", []).append(sentence)
    if fields:
        names = ", ".join(islice(fields, 5))
        raise ValidationFailed(_("The definition is not valid: %(fields)s.") % {"fields": names}, fields=fields)


# Checks of single values


def _told(check: Callable[[Any], Any]) -> Check:
    """A field check of commands as a check of this module."""

    def problems(value: Any) -> Problems:
        try:
            check(value)
        except commands.Invalid as error:
            yield "", str(error)

    return problems


def _label(limit: int) -> Check:
    return _told(lambda value: commands.label(value, limit))


def _number(least: int, most: int) -> Check:
    def problems(value: Any) -> Problems:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            yield "", _("A whole number from %(least)d to %(most)d.") % {"least": least, "most": most}

    return problems


def _one_of(*words: str) -> Check:
    def problems(value: Any) -> Problems:
        if value not in words:
            yield "", _("One of: %(words)s.") % {"words": ", ".join(words)}

    return problems


def _list_of(each: Check, *, least: int = 0, most: int = MAX_STEPS) -> Check:
    def problems(value: Any) -> Problems:
        if not isinstance(value, list) or not least <= len(value) <= most:
            yield "", _("A list of %(least)d to %(most)d items.") % {"least": least, "most": most}
            return
        for number, item in enumerate(value):
            for path, sentence in each(item):
                yield _join(str(number), path), sentence

    return problems


def _anything(value: Any) -> Problems:
    yield from ()


def _schema(value: Any) -> Problems:
    if problem := _schema_problem(exact_json.dumps(value)):
        yield "", _("This is no JSON Schema that can be pinned: %(problem)s") % {"problem": problem}


@lru_cache(maxsize=64)
def _schema_problem(text: str) -> str | None:
    """By text: thousands of steps of one document often share few contracts, and the check is slow."""
    return contracts.schema_problem(exact_json.loads(text))


def _pointer(value: Any) -> Problems:
    try:
        JsonPointer(value)
    except (JsonPointerException, TypeError):
        yield "", _("A JSON Pointer (RFC 6901), such as “/state”.")


def _template(value: Any) -> Problems:
    """JSON in which {"$from": pointer} stands for a value; the pointers' targets are checked by `_sources`."""
    if isinstance(value, dict):
        if "$from" in value:
            if set(value) != {"$from"}:
                yield "", _("An object with $from holds nothing else.")
            elif list(_pointer(value["$from"])):
                yield "$from", _("A JSON Pointer, such as “/instance/input/order”.")
            return
        children: Iterable[tuple[Any, Any]] = value.items()
    else:
        children = enumerate(value) if isinstance(value, list) else ()
    for name, child in children:
        for path, sentence in _template(child):
            yield _join(name, path), sentence


def _key_template(value: Any) -> Problems:
    """A template that gives a key: a text, or one {"$from": pointer} that finds a text."""
    if isinstance(value, dict) and "$from" in value:
        yield from _template(value)
    else:
        yield from _label(MAX_KEY)(value)


def _join(name: Any, path: str) -> str:
    name = commands.printable(name)
    return f"{name}.{path}" if path else name


def _members(value: Any, known: Mapping[str, Check], required: Iterable[str] = ()) -> Problems:
    """An object with these members and no others."""
    if not isinstance(value, dict):
        yield "", _("This has to be a JSON object.")
        return
    for name in required:
        if name not in value:
            yield name, _("This field is missing.")
    for name, member in value.items():
        if name not in known:
            yield _join(name, ""), _("There is no such field here; remove it.")
            continue
        for path, sentence in known[name](member):
            yield _join(name, path), sentence


def _policy(value: Any) -> Problems:
    yield from _members(value, _POLICY)


def _signal(value: Any) -> Problems:
    yield from _members(value, _SIGNAL, required=_SIGNAL)


def _outcome_map(value: Any) -> Problems:
    """Which answers mean what: one pointer, and no answer with two meanings."""
    found = list(_members(value, _OUTCOME_MAP, required=("pointer", "SUCCEEDED")))
    yield from found
    if found:
        return
    meanings: dict[str, str] = {}
    for meaning in ("PENDING", "SUCCEEDED", "FAILED"):
        for answer in value.get(meaning, ()):
            if meanings.setdefault(exact_json.canonical(answer), meaning) != meaning:
                yield meaning, _("The same answer has another meaning already.")


_DOCUMENT: dict[str, Check] = {
    "name": _label(128),
    "input_schema": _schema,
    "max_duration_ms": _number(1, MAX_MS),
    "root": _anything,
}
_POLICY: dict[str, Check] = {
    "on_failure": _one_of("REVIEW", "FAIL"),
    "retryable_errors": _list_of(_label(64), most=100),
    "backoff_ms": _number(0, MAX_MS),
    "priority": _number(-(2**31), 2**31 - 1),
    "business_key": _key_template,
    "concurrency_key": _key_template,
    "latest_start_ms": _number(1, MAX_MS),
}
_SIGNAL: dict[str, Check] = {"name": _label(128), "schema": _schema, "correlation": _key_template}
_OUTCOME_MAP: dict[str, Check] = {
    "pointer": _pointer,
    "PENDING": _list_of(_anything),
    "SUCCEEDED": _list_of(_anything, least=1),
    "FAILED": _list_of(_anything),
}
_FIELDS: dict[str, Check] = {
    "key": _told(commands.name),
    "kind": _one_of(*StepKind.values),
    "children": _list_of(_anything, least=1),
    "queue": _label(64),
    "handler": _label(128),
    "handler_version": _label(32),
    "max_attempts": _number(1, MAX_ATTEMPTS),
    "policy": _policy,
    "input": _template,
    "output_contract": _schema,
    "outcome_map": _outcome_map,
    "interval_ms": _number(1, MAX_MS),
    "max_rounds": _number(1, MAX_ROUNDS),
    "timeout_ms": _number(1, MAX_MS),
    "total_timeout_ms": _number(1, MAX_MS),
    "delay_ms": _number(1, MAX_MS),
    "signal": _signal,
}
_WORK = ("queue", "handler", "handler_version", "max_attempts")
_REQUIRED: dict[str, tuple[str, ...]] = {
    StepKind.SEQUENCE: ("children",),
    StepKind.PARALLEL: ("children",),
    StepKind.TASK: _WORK,
    StepKind.POLL: (*_WORK, "outcome_map", "interval_ms", "max_rounds", "total_timeout_ms"),
    StepKind.SIGNAL: ("signal",),
    StepKind.TIMER: ("delay_ms",),
}
_OPTIONAL: dict[str, tuple[str, ...]] = {
    StepKind.SEQUENCE: (),
    StepKind.PARALLEL: (),
    StepKind.TASK: ("policy", "input", "output_contract", "timeout_ms"),
    StepKind.POLL: ("policy", "input", "output_contract", "timeout_ms", "signal"),
    StepKind.SIGNAL: ("input", "total_timeout_ms"),
    StepKind.TIMER: ("input",),
}


# Checks of the tree


def _tree(root: Any, nodes: dict[str, Node]) -> Problems:
    """Checks every node and collects them by key, in tree order."""
    stack: list[tuple[Any, str | None, int, str]] = [(root, None, 0, "root")]
    while stack:
        value, parent, position, path = stack.pop()
        if len(nodes) == MAX_STEPS:
            yield "root", _("At most %(limit)d steps.") % {"limit": MAX_STEPS}
            return
        found = list(_node(value))
        yield from ((_join(path, below), sentence) for below, sentence in found)
        if found:
            continue
        key = value["key"]
        if key in nodes:
            yield f"{path}.key", _("Another step has this key: %(path)s.") % {"path": nodes[key].path}
            continue
        nodes[key] = Node(key, value["kind"], parent, position, path, value)
        children = list(enumerate(value.get("children", ())))
        stack += [(child, key, number, f"{path}.children.{number}") for number, child in reversed(children)]


def _node(value: Any) -> Problems:
    """One node without its children: the fields that its kind has, and no others."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in _REQUIRED:
        yield from _members(value, _FIELDS, required=("key", "kind"))
        return
    required = ("key", "kind", *_REQUIRED[kind])
    known = {name: _FIELDS[name] for name in (*required, *_OPTIONAL[kind])}
    yield from _members(value, known, required)


def _sources(nodes: Mapping[str, Node]) -> Problems:
    """Every pointer of a template leads to the instance's input, or to the output of a step that comes earlier."""
    for node in nodes.values():
        if node.kind not in LEAVES:
            continue
        policy, signal = node.fields.get("policy", {}), node.fields.get("signal", {})
        templates = {
            "input": node.fields.get("input"),
            "policy.business_key": policy.get("business_key"),
            "policy.concurrency_key": policy.get("concurrency_key"),
            "signal.correlation": signal.get("correlation"),
        }
        for name, template in templates.items():
            for pointer in contracts.sources(template):
                if problem := _source_problem(pointer, node, nodes):
                    yield f"{node.path}.{name}", problem


def _source_problem(pointer: str, node: Node, nodes: Mapping[str, Node]) -> str | None:
    match JsonPointer(pointer).parts:
        case ["instance", "input", *_rest]:
            return None
        case ["steps", key, "output", *_rest] if key in nodes:
            if _comes_earlier(nodes[key], node, nodes):
                return None
            return _("Step “%(key)s” does not come earlier in a sequence.") % {"key": key}
        case ["steps", key, "output", *_rest]:
            return _("There is no step “%(key)s”.") % {"key": commands.printable(key)}
    return _("“%(pointer)s” leads neither to /instance/input nor to /steps/<key>/output.") % {
        "pointer": commands.printable(pointer)
    }


def _comes_earlier(first: Node, second: Node, nodes: Mapping[str, Node]) -> bool:
    """Whether `first` has always succeeded when `second` starts: their common parent is a sequence, in that order."""
    branches: dict[str | None, Node] = {}
    node = second
    while node.parent is not None:
        branches[node.parent] = node
        node = nodes[node.parent]
    node = first
    while node.parent is not None and node.parent not in branches:
        node = nodes[node.parent]
    if node.parent is None:
        return False
    parent, branch = nodes[node.parent], branches[node.parent]
    return parent.kind == StepKind.SEQUENCE and node.position < branch.position
