"""The 35 entities are those of the catalogue, in the models and in the database itself."""

import re
from dataclasses import dataclass
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, models, transaction

from recovery.management.commands import entities
from recovery.models import catalogue
from recovery.models import fields as types
from recovery.models.access import Grant
from tests.support.rows import nonsense

CATALOGUE = settings.BASE_DIR / "docs" / "entities.txt"


@dataclass(frozen=True)
class Column:
    """A field line of the catalogue, and what the model's field has to be."""

    name: str
    type: str
    comment: str

    @property
    def null(self) -> bool:
        return self.type.endswith("?")

    def check(self, field: Any) -> None:
        word, argument = re.fullmatch(r"(\w+)(?:\((.+)\))?\??", self.type).groups()  # type: ignore[union-attr]
        assert field.name == self.name
        assert field.null == self.null
        assert field.db_comment == self.comment
        if word == "ref":
            assert isinstance(field, types.Ref | types.OneRef)
            assert field.related_model.__name__ == argument
        else:
            assert type(field) is _CLASSES[word]
        if word in ("key", "text"):
            assert field.max_length == int(argument)
        if word == "enum":
            assert [value for value, _label in field.choices] == argument.split(",")


_CLASSES = {
    "id": types.Id,
    "key": types.Key,
    "text": types.Text,
    "json": types.Json,
    "int": models.IntegerField,
    "big": models.BigIntegerField,
    "bool": models.BooleanField,
    "time": models.DateTimeField,
    "enum": types.Enum,
}


def _catalogue() -> dict[str, tuple[str, list[Column]]]:
    """Entity name -> Chinese name and columns."""
    found: dict[str, tuple[str, list[Column]]] = {}
    for line in CATALOGUE.read_text().splitlines():
        parts = [part.strip() for part in line.removeprefix("##").split(" |")]
        if line.startswith("## "):
            columns: list[Column] = []
            found[parts[0]] = (parts[1], columns)
        elif line and not line.startswith("#"):
            columns.append(Column(*parts[:3]))
    return found


LISTED = _catalogue()
ENTITIES = {model.__name__: model for model in catalogue.entities()}
OURS = [*catalogue.entities(), *catalogue.own_tables()]


ENUMS = [
    pytest.param(model, field, id=f"{model.__name__}.{field.name}")
    for model in OURS
    for field in model._meta.local_fields
    if isinstance(field, types.Enum)
]


def _fields(model: type[models.Model]) -> list[Any]:
    return list(model._meta.local_fields)


def _field(model: type[models.Model], name: str) -> Any:
    return model._meta.get_field(name)


def test_there_are_35_entities_with_305_fields() -> None:
    assert len(ENTITIES) == len(LISTED) == 35
    assert sum(len(model._meta.local_fields) for model in ENTITIES.values()) == 305
    assert sum(len(columns) for _comment, columns in LISTED.values()) == 305


def test_entities_have_no_inherited_and_no_many_to_many_fields() -> None:
    for model in ENTITIES.values():
        assert list(model._meta.fields) == model._meta.local_fields
        assert not model._meta.local_many_to_many
        assert not model._meta.parents


@pytest.mark.parametrize("name", sorted(LISTED))
def test_each_field_is_what_the_catalogue_says(name: str) -> None:
    comment, columns = LISTED[name]
    assert ENTITIES[name]._meta.db_table_comment == comment
    by_name = {field.name: field for field in ENTITIES[name]._meta.local_fields}
    assert sorted(by_name) == sorted(column.name for column in columns)
    for column in columns:
        column.check(by_name[column.name])


@pytest.mark.parametrize("name", sorted(LISTED))
def test_what_the_catalogue_calls_unique_is_unique(name: str) -> None:
    """`unique` on its own; `unique with a, b` together."""
    wanted = set()
    text = CATALOGUE.read_text().partition(f"## {name} |")[2].partition("\n## ")[0]
    for line in text.splitlines()[1:]:
        field, *_parts, note = line.split(" |") if line.count(" |") >= 3 else ("", "")
        if told := re.match(r" unique(?: with ([\w, ]+?))?(?:;|$)", note):
            others = re.split(r", | and ", told[1]) if told[1] else []
            wanted.add(frozenset([field, *others]))
    if name == "ActivationTask":  # said in the entity's own line
        wanted.add(frozenset(["activation", "round"]))
    meta = ENTITIES[name]._meta
    unique = {frozenset([field.name]) for field in meta.local_fields if field.unique and not field.primary_key}
    unique |= {frozenset(rule.fields) for rule in meta.constraints if isinstance(rule, models.UniqueConstraint)}
    assert unique == wanted


def test_what_is_ours_refers_without_a_constraint_and_without_a_cascade() -> None:
    for model in OURS:
        for field in _fields(model):
            if field.remote_field and not _is_guardians(model, field.name):
                assert not field.db_constraint, field
                assert field.remote_field.on_delete is models.DO_NOTHING, field


def _is_guardians(model: type[models.Model], name: str) -> bool:
    """The keys that guardian itself declares stay as they are."""
    return issubclass(model, Grant) and name in ("user", "group", "permission")


@pytest.mark.django_db
def test_the_database_has_no_foreign_keys_of_ours() -> None:
    found = set()
    with connection.cursor() as cursor:
        for model in OURS:
            for rule in connection.introspection.get_constraints(cursor, model._meta.db_table).values():
                if rule["foreign_key"]:
                    found |= {(model, column) for column in rule["columns"]}
    assert {(model, column) for model, column in found if not _is_guardians(model, column.removesuffix("_id"))} == set()


@pytest.mark.django_db
def test_the_database_cascades_nowhere() -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            rules = set()
            for model in OURS:
                cursor.execute(f"PRAGMA foreign_key_list({model._meta.db_table})")
                rules |= {rule for row in cursor.fetchall() for rule in row[5:7]}
        else:
            cursor.execute(
                "SELECT delete_rule, update_rule FROM information_schema.referential_constraints"
                " WHERE constraint_schema = DATABASE() AND table_name LIKE 'recovery_%%'"
            )
            rules = {rule for row in cursor.fetchall() for rule in row}
    assert rules <= {"NO ACTION", "RESTRICT"}


@pytest.mark.django_db
@pytest.mark.parametrize(("model", "field"), ENUMS)
def test_a_word_that_an_enum_does_not_know_cannot_be_stored(model: type[models.Model], field: Any) -> None:
    for word, _label in field.choices:
        model._base_manager.bulk_create([nonsense(model, **{field.name: word})])
    for word in ("UNHEARD_OF", field.choices[0][0].lower(), field.choices[0][0] + " ", ""):
        with pytest.raises(DatabaseError), transaction.atomic():
            model._base_manager.bulk_create([nonsense(model, **{field.name: word})])


@pytest.mark.django_db
@pytest.mark.parametrize(("model", "field"), ENUMS)
def test_an_update_to_an_unknown_word_is_refused_too(model: type[models.Model], field: Any) -> None:
    model._base_manager.bulk_create([row := nonsense(model)])
    with pytest.raises(DatabaseError, match=r"(?i)constraint"), transaction.atomic():
        model._base_manager.filter(pk=row.pk).update(**{field.name: "UNHEARD_OF"})


@pytest.mark.django_db
@pytest.mark.parametrize("name", sorted(LISTED))
def test_every_text_column_is_compared_byte_for_byte(name: str) -> None:
    meta = ENTITIES[name]._meta
    with connection.cursor() as cursor:
        found = connection.introspection.get_table_description(cursor, meta.db_table)
    # None is the table's own default. SQLite's is BINARY; MariaDB's is not good enough.
    collations = {row.name: row.collation or {"sqlite": "BINARY"}.get(connection.vendor) for row in found}
    for field in meta.local_fields:
        if isinstance(field, types.Text | models.ForeignKey):
            assert collations[field.column] == types.byte_order_collation(connection), field


def _all(cursor: Any, sql: str) -> list[Any]:
    cursor.execute(sql)
    return list(cursor.fetchall())


ALIKE = [
    "a",
    "A",
    "á",
    "a\u0301",
    "à",
    "a ",
    "a  ",
    " a",
    "ä",
    "ß",
    "ss",
    "😀",
    "😁",
    "ﬀ",
    "ff",
    "1",
    "①",
    "i",
    "ı",
    "İ",
]
"""Words that some collation takes for one another: case, accents, trailing blanks, expansions, emoji."""

KEYS = [
    ("Namespace", "name"),
    ("Application", "name"),
    ("Queue", "name"),
    ("WorkflowDefinition", "name"),
    ("StepDefinition", "step_key"),
    ("WorkflowStep", "step_key"),
    ("WorkflowInstance", "business_key"),
    ("Signal", "source_key"),
    ("ManagementOperation", "operation_key"),
    ("ExecutionPermit", "active_key"),
    ("DefinitionVersion", "graph_digest"),
]


@pytest.mark.django_db
@pytest.mark.parametrize(("name", "field"), KEYS)
def test_keys_that_only_look_alike_are_different_keys(name: str, field: str) -> None:
    model = ENTITIES[name]
    first = nonsense(model, **{field: ALIKE[0]})
    shared = {key: getattr(first, key) for key in _unique_with(model, field)}
    rows = [first, *(nonsense(model, **shared | {field: word}) for word in ALIKE[1:])]
    model._base_manager.bulk_create(rows)
    for row in rows:
        found = model._base_manager.filter(**{field: getattr(row, field)})
        assert [each.pk for each in found] == [row.pk]
    with pytest.raises(DatabaseError), transaction.atomic():
        model._base_manager.bulk_create([nonsense(model, **shared)])


def _unique_with(model: type[models.Model], field: str) -> list[str]:
    """The columns of the unique key that has the field, the field included."""
    for rule in model._meta.constraints:
        if isinstance(rule, models.UniqueConstraint) and field in rule.fields:
            return [_field(model, name).attname for name in rule.fields]
    assert _field(model, field).unique
    return [field]


@pytest.mark.django_db
def test_primary_keys_and_references_are_compared_byte_for_byte() -> None:
    task, step = ENTITIES["Task"], ENTITIES["WorkflowStep"]
    tasks = [nonsense(task, id=word, owner_activation_id=word) for word in ALIKE]
    task._base_manager.bulk_create(tasks)
    step._base_manager.bulk_create([nonsense(step, current_activation_id=word) for word in ALIKE])
    for word in ALIKE:
        assert task._base_manager.filter(pk=word).count() == 1
        assert task._base_manager.filter(owner_activation_id=word).count() == 1
        assert step._base_manager.filter(current_activation_id=word).count() == 1


@pytest.mark.django_db
def test_keys_are_ordered_by_their_bytes() -> None:
    namespace = ENTITIES["Namespace"]
    namespace._base_manager.bulk_create([nonsense(namespace, name=word) for word in ALIKE])
    found = list(namespace._base_manager.order_by("name").values_list("name", flat=True))
    assert found == sorted(ALIKE, key=lambda word: word.encode())


@pytest.mark.django_db
def test_the_comments_are_in_the_database() -> None:
    """In MariaDB's information_schema. SQLite keeps no comments: there it is only made sure that this is known."""
    if not connection.features.supports_comments:
        assert "fields.W163" in settings.SILENCED_SYSTEM_CHECKS
        return
    with connection.cursor() as cursor:
        tables = dict(_all(cursor, f"SELECT table_name, table_comment FROM information_schema.tables {_HERE}"))
        columns = {
            (table, column): comment
            for table, column, comment in _all(
                cursor, f"SELECT table_name, column_name, column_comment FROM information_schema.columns {_HERE}"
            )
        }
    for name, (comment, listed) in LISTED.items():
        meta = ENTITIES[name]._meta
        assert tables[meta.db_table] == comment
        for column in listed:
            assert columns[meta.db_table, _field(ENTITIES[name], column.name).column] == column.comment


_HERE = "WHERE table_schema = DATABASE()"


def test_no_index_is_longer_than_what_galera_certifies() -> None:
    """MariaDB hashes a unique key beyond 3072 bytes, and then Galera does not certify it. Four bytes a character."""
    for model in ENTITIES.values():
        for rule in model._meta.constraints:
            if isinstance(rule, models.UniqueConstraint):
                lengths = [_bytes(_field(model, name)) for name in rule.fields]
                assert sum(lengths) <= 3072, rule.name


def _bytes(field: Any) -> int:
    target = field.target_field if isinstance(field, models.ForeignKey) else field
    return 4 * target.max_length if target.max_length else 8


def test_every_index_says_which_query_it_serves() -> None:
    for model in OURS:
        notes = entities.comments(model)
        for index in model._meta.indexes:
            assert notes.get(index.name), f"{index.name}: no comment above it"


def test_the_page_of_the_entities_is_not_stale() -> None:
    call_command("entities", check=True)


def test_a_stale_page_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(entities, "PLACE", tmp_path / "entities.md")
    with pytest.raises(CommandError, match="stale") as missing:
        call_command("entities", check=True)
    assert missing.value.returncode == 1
    call_command("entities")
    call_command("entities", check=True)
    (tmp_path / "entities.md").write_text("something else")
    with pytest.raises(CommandError, match="stale"):
        call_command("entities", check=True)


def test_no_model_is_left_out_of_the_page() -> None:
    page = entities.render()
    for model in apps.get_app_config("recovery").get_models():
        assert f"### {model.__name__} " in page
