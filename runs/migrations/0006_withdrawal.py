
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0005_scale'),
    ]

    operations = [
        migrations.AddField(
            model_name='run',
            name='is_withdrawn',
            field=models.BooleanField(db_default=False, default=False, help_text='Taken back before it began: no part of the conversation.'),
        ),
    ]
