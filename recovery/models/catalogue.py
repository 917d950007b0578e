"""Which models are the 35 entities: those of the topics' modules. All others are the console's own tables."""

from django.apps import apps
from django.db.models import Model

from recovery.models import definition, instance, management, pulse, tenancy, waiting

TOPICS = (tenancy, definition, instance, pulse, waiting, management)


def entities() -> list[type[Model]]:
    """The 35 entities, by topic."""
    names = [topic.__name__ for topic in TOPICS]
    known = [model for model in apps.get_app_config("recovery").get_models() if model.__module__ in names]
    return sorted(known, key=lambda model: names.index(model.__module__))


def own_tables() -> list[type[Model]]:
    """What the console keeps besides the entities: grants, the log of access, runners and the like."""
    return [model for model in apps.get_app_config("recovery").get_models() if model not in entities()]
