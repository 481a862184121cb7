
from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0007_words'),
    ]

    operations = [
        migrations.RemoveField(
            model_name='worker',
            name='built_agents',
        ),
        migrations.RemoveField(
            model_name='worker',
            name='live_agents',
        ),
        migrations.RemoveField(
            model_name='worker',
            name='reused_agents',
        ),
    ]
