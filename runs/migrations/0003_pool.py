import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

# The demo agent's tools before there were files and background processes, and what is new.
DEMO_TOOLS = ["current_time", "calculator", "wait", "remember", "recall", "send_email"]
NEW_DEMO_TOOLS = [
    *DEMO_TOOLS, "write_file", "read_file", "list_files", "start_process", "check_process", "end_process"
]
# It was made as the first version, or renewed by the migration before this one as the second.
MADE_BY_US = (1, 2)


def complete_versions(apps, schema_editor):
    """What every agent did until now, so that the next save of an unchanged agent makes no new version."""
    for version in apps.get_model("runs", "AgentVersion").objects.iterator():
        version.configuration = {"fallback_model": "", "fallback_provider": None, **version.configuration}
        version.save(update_fields=["configuration"])


def renew_demo_agent(apps, schema_editor):
    """A demo agent that nobody has changed learns to use files and processes. One that somebody made their own stays."""
    demo = apps.get_model("runs", "Agent").objects.filter(slug="demo", provider__kind="demo", approvals={})
    agent = demo.filter(version__in=MADE_BY_US, tools=DEMO_TOOLS).first()
    if agent is None:
        return
    versions = apps.get_model("runs", "AgentVersion").objects.filter(agent=agent)
    if versions.exclude(created_by=None).exists():
        return
    last = versions.order_by("-number").first()
    agent.tools = NEW_DEMO_TOOLS
    agent.version = last.number + 1
    agent.save()
    versions.create(agent=agent, number=agent.version, configuration={**last.configuration, "tools": NEW_DEMO_TOOLS})


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0002_approvals'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='agent',
            name='fallback_completion_price',
            field=models.DecimalField(blank=True, decimal_places=6, max_digits=12, null=True),
        ),
        migrations.AddField(
            model_name='agent',
            name='fallback_model',
            field=models.CharField(blank=True, help_text='Goes on with the run when the first model fails for good: time-outs, overload, lost connections.', max_length=200),
        ),
        migrations.AddField(
            model_name='agent',
            name='fallback_prompt_price',
            field=models.DecimalField(blank=True, decimal_places=6, help_text='Of the second model, for a million prompt tokens; both empty: as the first, marked as estimated.', max_digits=12, null=True),
        ),
        migrations.AddField(
            model_name='agent',
            name='fallback_provider',
            field=models.ForeignKey(blank=True, help_text='Where the second model is; empty: at the same provider.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='fallback_agents', to='runs.provider'),
        ),
        migrations.AddField(
            model_name='conversation',
            name='context_from',
            field=models.PositiveIntegerField(default=0, editable=False, help_text='Messages up to this position are kept and no longer shown to the model.'),
        ),
        migrations.AddField(
            model_name='conversation',
            name='deleted_at',
            field=models.DateTimeField(editable=False, help_text='Since then nobody finds it; for a while it can be restored.', null=True),
        ),
        migrations.AddField(
            model_name='conversation',
            name='task_ended_at',
            field=models.DateTimeField(editable=False, help_text='When its files and processes were removed, after it was deleted.', null=True),
        ),
        migrations.AddField(
            model_name='worker',
            name='pool',
            field=models.JSONField(default=dict, editable=False),
        ),
        migrations.AddField(
            model_name='worker',
            name='pool_at',
            field=models.DateTimeField(editable=False, null=True),
        ),
        migrations.AddIndex(
            model_name='conversation',
            index=models.Index(condition=models.Q(('deleted_at__isnull', False)), fields=['deleted_at'], name='conversation_deleted'),
        ),
        migrations.RunPython(complete_versions, migrations.RunPython.noop, elidable=True),
        migrations.RunPython(renew_demo_agent, migrations.RunPython.noop, elidable=True),
    ]
