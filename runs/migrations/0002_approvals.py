import django.core.validators
import django.db.models.deletion
import runs.models.fields
import runs.models.ids
from django.db import migrations, models

# The demo agent as sites got it before there were approvals, and what is new about it.
DEMO = {
    "approvals": {},
    "instructions": (
        "You are the demo agent of Agentsite, a self-hosted web console and agent backend. You introduce the product to "
        "somebody who has just installed it. Answer briefly and in Markdown. When you are asked for the time, a "
        "calculation, a wait or a note, use your tools instead of guessing."
    ),
    "examples": ["What can you do?", "What time is it, and what is 17*23?", "Wait 20 seconds"],
    "tools": ["current_time", "calculator", "wait", "remember", "recall"],
}
NEW_DEMO = {
    "instructions": (
        "You are the demo agent of Agentsite, a self-hosted web console and agent backend. You introduce the product to "
        "somebody who has just installed it. Answer briefly and in Markdown. When you are asked for the time, a "
        "calculation, a wait, a note or an e-mail, use your tools instead of guessing."
    ),
    "examples": [*DEMO["examples"], "Send an email to ada@example.com about lunch"],
    "tools": [*DEMO["tools"], "send_email"],
}


def complete_versions(apps, schema_editor):
    """What every agent did until now, so that the next save of an unchanged agent makes no new version."""
    for version in apps.get_model("runs", "AgentVersion").objects.iterator():
        version.configuration = {"approval_hours": 168, "on_expiry": "deny", **version.configuration}
        version.save(update_fields=["configuration"])


def renew_demo_agent(apps, schema_editor):
    """A demo agent that nobody has changed learns to send e-mails. One that somebody made their own stays as it is."""
    agent = apps.get_model("runs", "Agent").objects.filter(slug="demo", provider__kind="demo", version=1).first()
    if agent is None or any(getattr(agent, name) != value for name, value in DEMO.items()):
        return
    versions = apps.get_model("runs", "AgentVersion").objects.filter(agent=agent)
    first = versions.order_by("-number").first()
    for name, value in NEW_DEMO.items():
        setattr(agent, name, value)
    agent.version = 2
    agent.save()
    changed = {name: value for name, value in NEW_DEMO.items() if name in first.configuration}
    versions.create(agent=agent, number=2, configuration={**first.configuration, **changed})


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='agent',
            name='approval_hours',
            field=models.PositiveIntegerField(blank=True, default=168, help_text='How long a call waits for approval; empty: for ever.', null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(87600)]),
        ),
        migrations.AddField(
            model_name='agent',
            name='on_expiry',
            field=models.CharField(choices=[('deny', 'deny the call, and go on'), ('stop', 'stop the run')], default='deny', help_text='What happens when nobody decided in time.', max_length=10),
        ),
        migrations.AlterField(
            model_name='agent',
            name='approvals',
            field=models.JSONField(blank=True, default=dict, help_text="By tool, where it differs from the tool's own rule: &quot;always&quot;, &quot;never&quot;, or a JSON schema of the arguments that a person must approve, for example {&quot;wait&quot;: {&quot;properties&quot;: {&quot;seconds&quot;: {&quot;minimum&quot;: 60}}}}."),
        ),
        migrations.CreateModel(
            name='OutboxEmail',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('call_id', models.CharField(max_length=200)),
                ('to', models.CharField(max_length=254)),
                ('subject', models.CharField(max_length=200)),
                ('body', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(auto_now_add=True)),
                ('conversation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='outbox_emails', to='runs.conversation')),
            ],
            options={
                'verbose_name': 'outbox e-mail',
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='Approval',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('public_id', models.CharField(default=runs.models.ids.new_approval_id, editable=False, max_length=40, unique=True)),
                ('tool_call_id', models.CharField(max_length=200)),
                ('position', models.PositiveIntegerField(help_text="Where the call's answer stands in the conversation.")),
                ('name', models.CharField(max_length=100)),
                ('description', models.TextField(blank=True)),
                ('arguments', runs.models.fields.WrittenJSONField(help_text='As the model asked for them.')),
                ('arguments_digest', models.CharField(help_text='SHA-256 of the arguments as JSON with sorted keys.', max_length=64)),
                ('schema', runs.models.fields.WrittenJSONField(help_text="The JSON schema of the tool's arguments.")),
                ('why', models.TextField(blank=True, help_text='What the model said before the call.')),
                ('requested_at', models.DateTimeField()),
                ('expires_at', models.DateTimeField(null=True)),
                ('on_expiry', models.CharField(choices=[('deny', 'deny the call, and go on'), ('stop', 'stop the run')], max_length=10)),
                ('status', models.CharField(choices=[('pending', 'pending'), ('approved', 'approved'), ('denied', 'denied'), ('expired', 'expired'), ('stopped', 'stopped')], default='pending', max_length=10)),
                ('edited_arguments', runs.models.fields.WrittenJSONField(help_text='What a person put in their place.', null=True)),
                ('reason', models.TextField(blank=True)),
                ('decided_by', models.CharField(blank=True, max_length=150)),
                ('decided_via', models.CharField(blank=True, max_length=20)),
                ('decided_at', models.DateTimeField(null=True)),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='approvals', to='runs.run')),
            ],
            options={
                'ordering': ['-id'],
                'indexes': [models.Index(fields=['status', '-id'], name='approval_status_recent'), models.Index(condition=models.Q(('status', 'pending')), fields=['expires_at'], name='approval_to_expire')],
                'constraints': [models.UniqueConstraint(fields=('run', 'tool_call_id'), name='one_approval_a_call')],
            },
        ),
        migrations.RunPython(complete_versions, migrations.RunPython.noop, elidable=True),
        migrations.RunPython(renew_demo_agent, migrations.RunPython.noop, elidable=True),
    ]
