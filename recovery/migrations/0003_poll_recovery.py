"""Poll recovery: a query may go on over several activations (seed 17, section 3).

Old rows get first_round 1 and no attempts used before; nothing else of them changes.
"""

from typing import Any

from django.db import migrations, models


def refuse_to_forget(apps: Any, schema_editor: Any) -> None:
    """Going back would lose which rounds an activation owns, once a query was retried (M1)."""
    activations = apps.get_model("recovery", "StepActivation").objects
    if activations.filter(cause="RETRY", step__kind="POLL").exists():
        raise RuntimeError(
            "A POLL step has an activation of cause RETRY: its rounds could not be told apart any more, "
            "so this migration cannot be reversed. Restore a backup from before the upgrade instead."
        )


class Migration(migrations.Migration):
    dependencies = [("recovery", "0002_append_only")]

    operations = [
        migrations.AddField(
            model_name="pollstate",
            name="first_round",
            field=models.IntegerField(default=1, db_comment="当前激活保存的首个业务轮次"),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="pollstate",
            name="first_round_attempts_used",
            field=models.IntegerField(default=0, db_comment="首轮在此前激活已用的请求尝试数"),
            preserve_default=False,
        ),
        # Last here, so that a reversal meets it first, before anything is dropped.
        migrations.RunPython(migrations.RunPython.noop, refuse_to_forget),
    ]
