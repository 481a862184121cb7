from django.db import migrations

# The demo agent's questions as they were made until now, and the three that show a tool, an approval and a long answer.
DEMO_QUESTIONS = [
    "What can you do?",
    "What time is it, and what is 17*23?",
    "Wait 20 seconds",
    "Send an email to ada@example.com about lunch",
]
NEW_DEMO_QUESTIONS = [
    "What time is it, and what is 17*23?",
    "Send an email to ada@example.com about lunch",
    "Tell me a long story",
]


def renew_demo_questions(apps, schema_editor):
    """Questions that somebody wrote themselves stay. They are no part of an agent's versions."""
    demo = apps.get_model("runs", "Agent").objects.filter(slug="demo", provider__kind="demo")
    demo.filter(examples=DEMO_QUESTIONS).update(examples=NEW_DEMO_QUESTIONS)


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0006_withdrawal'),
    ]

    operations = [
        migrations.RunPython(renew_demo_questions, migrations.RunPython.noop, elidable=True),
    ]
