"""The index that the review queue reads passed deadlines along."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("recovery", "0004_access_log")]

    operations = [
        migrations.AddIndex(
            model_name="workflowinstance",
            index=models.Index(fields=["status", "deadline_at", "id", "namespace"], name="workflowinstance_deadline"),
        ),
    ]
