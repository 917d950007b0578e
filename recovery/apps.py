from django.apps import AppConfig
from django.db.models.signals import pre_migrate


class RecoveryConfig(AppConfig):
    name = "recovery"
    verbose_name = "Weave"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from recovery.schema import refuse_to_forget

        pre_migrate.connect(refuse_to_forget, sender=self)
