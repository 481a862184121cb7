import django.core.validators
import django.db.models.deletion
import runs.models.agents
import runs.models.fields
import runs.models.ids
from django.conf import settings
from django.db import migrations, models

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
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='agent',
            options={'ordering': ['name'], 'verbose_name': 'agent', 'verbose_name_plural': 'agents'},
        ),
        migrations.AlterModelOptions(
            name='agentversion',
            options={'ordering': ['agent', '-number'], 'verbose_name': 'agent version', 'verbose_name_plural': 'agent versions'},
        ),
        migrations.AlterModelOptions(
            name='apikey',
            options={'ordering': ['-id'], 'verbose_name': 'API key', 'verbose_name_plural': 'API keys'},
        ),
        migrations.AlterModelOptions(
            name='approval',
            options={'ordering': ['-id'], 'verbose_name': 'approval', 'verbose_name_plural': 'approvals'},
        ),
        migrations.AlterModelOptions(
            name='conversation',
            options={'ordering': ['-id'], 'verbose_name': 'conversation', 'verbose_name_plural': 'conversations'},
        ),
        migrations.AlterModelOptions(
            name='event',
            options={'ordering': ['run', 'seq'], 'verbose_name': 'event', 'verbose_name_plural': 'events'},
        ),
        migrations.AlterModelOptions(
            name='message',
            options={'ordering': ['conversation', 'position'], 'verbose_name': 'message', 'verbose_name_plural': 'messages'},
        ),
        migrations.AlterModelOptions(
            name='note',
            options={'ordering': ['key'], 'verbose_name': 'note', 'verbose_name_plural': 'notes'},
        ),
        migrations.AlterModelOptions(
            name='outboxemail',
            options={'ordering': ['-id'], 'verbose_name': 'outbox e-mail', 'verbose_name_plural': 'outbox e-mails'},
        ),
        migrations.AlterModelOptions(
            name='provider',
            options={'ordering': ['name'], 'verbose_name': 'provider', 'verbose_name_plural': 'providers'},
        ),
        migrations.AlterModelOptions(
            name='run',
            options={'ordering': ['-id'], 'verbose_name': 'run', 'verbose_name_plural': 'runs'},
        ),
        migrations.AlterModelOptions(
            name='worker',
            options={'ordering': ['-seen_at'], 'verbose_name': 'worker', 'verbose_name_plural': 'workers'},
        ),
        migrations.AlterField(
            model_name='agent',
            name='approval_hours',
            field=models.PositiveIntegerField(blank=True, default=168, help_text='How long a call waits for approval; empty: for ever.', null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(87600)], verbose_name='approval hours'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='approvals',
            field=models.JSONField(blank=True, default=dict, help_text="By tool, where it differs from the tool's own rule: &quot;always&quot;, &quot;never&quot;, or a JSON schema of the arguments that a person must approve, for example {&quot;wait&quot;: {&quot;properties&quot;: {&quot;seconds&quot;: {&quot;minimum&quot;: 60}}}}.", verbose_name='approvals'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='completion_price',
            field=models.DecimalField(blank=True, decimal_places=6, help_text='For a million completion tokens.', max_digits=12, null=True, verbose_name='price of an answer'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='created_at',
            field=models.DateTimeField(auto_now_add=True, verbose_name='created'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='description',
            field=models.TextField(blank=True, help_text='What it is good for, in a sentence or two.', verbose_name='description'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='examples',
            field=models.JSONField(blank=True, default=list, help_text='Questions to begin with, as a list of texts.', verbose_name='examples'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='fallback_completion_price',
            field=models.DecimalField(blank=True, decimal_places=6, max_digits=12, null=True, verbose_name='price of an answer, second model'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='fallback_model',
            field=models.CharField(blank=True, help_text='Goes on with the run when the first model fails for good: time-outs, overload, lost connections.', max_length=200, verbose_name='second model'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='fallback_prompt_price',
            field=models.DecimalField(blank=True, decimal_places=6, help_text='Of the second model, for a million prompt tokens; both empty: as the first, marked as estimated.', max_digits=12, null=True, verbose_name='price of a prompt, second model'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='fallback_provider',
            field=models.ForeignKey(blank=True, help_text='Where the second model is; empty: at the same provider.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='fallback_agents', to='runs.provider', verbose_name='provider of the second model'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='has_parallel_tools',
            field=models.BooleanField(default=False, help_text='Calls that the model asks for together run at the same time instead of one by one.', verbose_name='parallel tools'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='instructions',
            field=models.TextField(blank=True, help_text='The system prompt.', verbose_name='instructions'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='is_active',
            field=models.BooleanField(default=True, verbose_name='active'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='is_default',
            field=models.BooleanField(default=False, help_text='Answers where no agent is named.', verbose_name='default'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='max_cost',
            field=models.DecimalField(blank=True, decimal_places=6, max_digits=12, null=True, verbose_name='limit of cost'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='max_seconds',
            field=models.FloatField(default=900, validators=[django.core.validators.MinValueValidator(0.1)], verbose_name='limit of seconds'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='max_steps',
            field=models.PositiveIntegerField(default=20, validators=[django.core.validators.MinValueValidator(1)], verbose_name='limit of steps'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='max_tokens',
            field=models.PositiveIntegerField(blank=True, help_text='Tokens of one run, prompt and answer together.', null=True, verbose_name='limit of tokens'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='model',
            field=models.CharField(max_length=200, verbose_name='model'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='name',
            field=models.CharField(max_length=100, verbose_name='name'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='on_expiry',
            field=models.CharField(choices=[('deny', 'deny the call, and go on'), ('stop', 'stop the run')], default='deny', help_text='What happens when nobody decided in time.', max_length=10, verbose_name='on expiry'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='prompt_price',
            field=models.DecimalField(blank=True, decimal_places=6, help_text='For a million prompt tokens.', max_digits=12, null=True, verbose_name='price of a prompt'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='provider',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='agents', to='runs.provider', verbose_name='provider'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='reasoning_effort',
            field=models.CharField(blank=True, choices=[('minimal', 'minimal'), ('low', 'low'), ('medium', 'medium'), ('high', 'high')], max_length=10, verbose_name='reasoning effort'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='sampling',
            field=models.JSONField(blank=True, default=dict, help_text='Passed to the model as it is, for example {&quot;temperature&quot;: 0.2}.', verbose_name='sampling'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='slug',
            field=models.CharField(max_length=64, unique=True, validators=[django.core.validators.RegexValidator('^[a-z0-9][a-z0-9._-]*\\Z', 'Lower-case letters, digits, dots, dashes and underscores.')], verbose_name='slug'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='tools',
            field=models.JSONField(blank=True, default=list, help_text='Names of the tools it may use.', verbose_name='tools'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='updated_at',
            field=models.DateTimeField(auto_now=True, verbose_name='changed'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='version',
            field=models.PositiveIntegerField(default=1, editable=False, verbose_name='version'),
        ),
        migrations.AlterField(
            model_name='agentversion',
            name='agent',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='runs.agent', verbose_name='agent'),
        ),
        migrations.AlterField(
            model_name='agentversion',
            name='configuration',
            field=models.JSONField(verbose_name='configuration'),
        ),
        migrations.AlterField(
            model_name='agentversion',
            name='created_at',
            field=models.DateTimeField(auto_now_add=True, verbose_name='created'),
        ),
        migrations.AlterField(
            model_name='agentversion',
            name='created_by',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL, verbose_name='created by'),
        ),
        migrations.AlterField(
            model_name='agentversion',
            name='number',
            field=models.PositiveIntegerField(verbose_name='number'),
        ),
        migrations.AlterField(
            model_name='apikey',
            name='beginning',
            field=models.CharField(editable=False, help_text="The key's first characters, to tell keys apart.", max_length=12, verbose_name='beginning'),
        ),
        migrations.AlterField(
            model_name='apikey',
            name='created_at',
            field=models.DateTimeField(auto_now_add=True, verbose_name='created'),
        ),
        migrations.AlterField(
            model_name='apikey',
            name='digest',
            field=models.CharField(editable=False, max_length=64, unique=True, verbose_name='digest'),
        ),
        migrations.AlterField(
            model_name='apikey',
            name='expires_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='expires'),
        ),
        migrations.AlterField(
            model_name='apikey',
            name='last_used_at',
            field=models.DateTimeField(blank=True, editable=False, null=True, verbose_name='last used'),
        ),
        migrations.AlterField(
            model_name='apikey',
            name='name',
            field=models.CharField(max_length=100, verbose_name='name'),
        ),
        migrations.AlterField(
            model_name='apikey',
            name='revoked_at',
            field=models.DateTimeField(blank=True, null=True, verbose_name='revoked'),
        ),
        migrations.AlterField(
            model_name='apikey',
            name='user',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_keys', to=settings.AUTH_USER_MODEL, verbose_name='user'),
        ),
        migrations.AlterField(
            model_name='approval',
            name='arguments',
            field=runs.models.fields.WrittenJSONField(help_text='As the model asked for them.', verbose_name='arguments'),
        ),
        migrations.AlterField(
            model_name='approval',
            name='arguments_digest',
            field=models.CharField(help_text='SHA-256 of the arguments as JSON with sorted keys.', max_length=64, verbose_name='digest of the arguments'),
        ),
        migrations.AlterField(
            model_name='approval',
            name='decided_at',
            field=models.DateTimeField(null=True, verbose_name='decided'),
        ),
        migrations.AlterField(
            model_name='approval',
            name='decided_by',
            field=models.CharField(blank=True, max_length=150, verbose_name='decided by'),
        ),
        migrations.AlterField(
            model_name='approval',
            name='decided_via',
            field=models.CharField(blank=True, max_length=20, verbose_name='decided via'),
        ),
        migrations.AlterField(
            model_name='approval',
            name='description',
            field=models.TextField(blank=True, verbose_name='description'),
        ),
        migrations.AlterField(
            model_name='approval',
            name='edited_arguments',
            field=runs.models.fields.WrittenJSONField(help_text='What a person put in their place.', null=True, verbose_name='edited arguments'),
        ),
        migrations.AlterField(
            model_name='approval',
            name='expires_at',
            field=models.DateTimeField(null=True, verbose_name='expires'),
        ),
        migrations.AlterField(
            model_name='approval',
            name='name',
            field=models.CharField(max_length=100, verbose_name='name'),
        ),
        migrations.AlterField(
            model_name='approval',
            name='on_expiry',
            field=models.CharField(choices=[('deny', 'deny the call, and go on'), ('stop', 'stop the run')], max_length=10, verbose_name='on expiry'),
        ),
        migrations.AlterField(
            model_name='approval',
            name='position',
            field=models.PositiveIntegerField(help_text="Where the call's answer stands in the conversation.", verbose_name='position'),
        ),
        migrations.AlterField(
            model_name='approval',
            name='public_id',
            field=models.CharField(default=runs.models.ids.new_approval_id, editable=False, max_length=40, unique=True, verbose_name='ID'),
        ),
        migrations.AlterField(
            model_name='approval',
            name='reason',
            field=models.TextField(blank=True, verbose_name='reason'),
        ),
        migrations.AlterField(
            model_name='approval',
            name='requested_at',
            field=models.DateTimeField(verbose_name='requested'),
        ),
        migrations.AlterField(
            model_name='approval',
            name='run',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='approvals', to='runs.run', verbose_name='run'),
        ),
        migrations.AlterField(
            model_name='approval',
            name='schema',
            field=runs.models.fields.WrittenJSONField(help_text="The JSON schema of the tool's arguments.", verbose_name='schema'),
        ),
        migrations.AlterField(
            model_name='approval',
            name='status',
            field=models.CharField(choices=[('pending', 'pending'), ('approved', 'approved'), ('denied', 'denied'), ('expired', 'expired'), ('stopped', 'stopped')], default='pending', max_length=10, verbose_name='status'),
        ),
        migrations.AlterField(
            model_name='approval',
            name='tool_call_id',
            field=models.CharField(max_length=200, verbose_name='tool call'),
        ),
        migrations.AlterField(
            model_name='approval',
            name='why',
            field=models.TextField(blank=True, help_text='What the model said before the call.', verbose_name='why'),
        ),
        migrations.AlterField(
            model_name='conversation',
            name='agent',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='conversations', to='runs.agent', verbose_name='agent'),
        ),
        migrations.AlterField(
            model_name='conversation',
            name='context_from',
            field=models.PositiveIntegerField(default=0, editable=False, help_text='Messages up to this position are kept and no longer shown to the model.', verbose_name='context from'),
        ),
        migrations.AlterField(
            model_name='conversation',
            name='created_at',
            field=models.DateTimeField(auto_now_add=True, verbose_name='created'),
        ),
        migrations.AlterField(
            model_name='conversation',
            name='deleted_at',
            field=models.DateTimeField(editable=False, help_text='Since then nobody finds it; for a while it can be restored.', null=True, verbose_name='deleted'),
        ),
        migrations.AlterField(
            model_name='conversation',
            name='last_stop_reason',
            field=models.CharField(blank=True, max_length=20, verbose_name='last stop reason'),
        ),
        migrations.AlterField(
            model_name='conversation',
            name='owner',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='conversations', to=settings.AUTH_USER_MODEL, verbose_name='owner'),
        ),
        migrations.AlterField(
            model_name='conversation',
            name='public_id',
            field=models.CharField(default=runs.models.ids.new_conversation_id, editable=False, max_length=40, unique=True, verbose_name='ID'),
        ),
        migrations.AlterField(
            model_name='conversation',
            name='task_ended_at',
            field=models.DateTimeField(editable=False, help_text='When its files and processes were removed, after it was deleted.', null=True, verbose_name='task ended'),
        ),
        migrations.AlterField(
            model_name='conversation',
            name='title',
            field=models.CharField(blank=True, max_length=200, verbose_name='title'),
        ),
        migrations.AlterField(
            model_name='conversation',
            name='updated_at',
            field=models.DateTimeField(auto_now=True, verbose_name='changed'),
        ),
        migrations.AlterField(
            model_name='event',
            name='at',
            field=models.DateTimeField(verbose_name='time'),
        ),
        migrations.AlterField(
            model_name='event',
            name='line',
            field=models.TextField(verbose_name='line'),
        ),
        migrations.AlterField(
            model_name='event',
            name='run',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='runs.run', verbose_name='run'),
        ),
        migrations.AlterField(
            model_name='event',
            name='seq',
            field=models.PositiveIntegerField(verbose_name='number'),
        ),
        migrations.AlterField(
            model_name='event',
            name='type',
            field=models.CharField(max_length=40, verbose_name='type'),
        ),
        migrations.AlterField(
            model_name='message',
            name='content',
            field=models.JSONField(help_text='Text, or a list of content parts.', verbose_name='content'),
        ),
        migrations.AlterField(
            model_name='message',
            name='conversation',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='messages', to='runs.conversation', verbose_name='conversation'),
        ),
        migrations.AlterField(
            model_name='message',
            name='created_at',
            field=models.DateTimeField(auto_now_add=True, verbose_name='created'),
        ),
        migrations.AlterField(
            model_name='message',
            name='is_partial',
            field=models.BooleanField(default=False, verbose_name='partial'),
        ),
        migrations.AlterField(
            model_name='message',
            name='name',
            field=models.CharField(blank=True, max_length=100, verbose_name='name'),
        ),
        migrations.AlterField(
            model_name='message',
            name='position',
            field=models.PositiveIntegerField(verbose_name='position'),
        ),
        migrations.AlterField(
            model_name='message',
            name='public_id',
            field=models.CharField(default=runs.models.ids.new_message_id, editable=False, max_length=40, unique=True, verbose_name='ID'),
        ),
        migrations.AlterField(
            model_name='message',
            name='role',
            field=models.CharField(max_length=10, verbose_name='role'),
        ),
        migrations.AlterField(
            model_name='message',
            name='run',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='messages', to='runs.run', verbose_name='run'),
        ),
        migrations.AlterField(
            model_name='message',
            name='tool_call_id',
            field=models.CharField(blank=True, max_length=200, verbose_name='tool call'),
        ),
        migrations.AlterField(
            model_name='message',
            name='tool_calls',
            field=models.JSONField(null=True, verbose_name='tool calls'),
        ),
        migrations.AlterField(
            model_name='note',
            name='conversation',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notes', to='runs.conversation', verbose_name='conversation'),
        ),
        migrations.AlterField(
            model_name='note',
            name='key',
            field=models.CharField(max_length=100, verbose_name='key'),
        ),
        migrations.AlterField(
            model_name='note',
            name='text',
            field=models.TextField(verbose_name='text'),
        ),
        migrations.AlterField(
            model_name='note',
            name='updated_at',
            field=models.DateTimeField(auto_now=True, verbose_name='changed'),
        ),
        migrations.AlterField(
            model_name='outboxemail',
            name='body',
            field=models.TextField(blank=True, verbose_name='body'),
        ),
        migrations.AlterField(
            model_name='outboxemail',
            name='call_id',
            field=models.CharField(max_length=200, verbose_name='tool call'),
        ),
        migrations.AlterField(
            model_name='outboxemail',
            name='conversation',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='outbox_emails', to='runs.conversation', verbose_name='conversation'),
        ),
        migrations.AlterField(
            model_name='outboxemail',
            name='created_at',
            field=models.DateTimeField(auto_now_add=True, verbose_name='created'),
        ),
        migrations.AlterField(
            model_name='outboxemail',
            name='subject',
            field=models.CharField(max_length=200, verbose_name='subject'),
        ),
        migrations.AlterField(
            model_name='outboxemail',
            name='to',
            field=models.CharField(max_length=254, verbose_name='recipient'),
        ),
        migrations.AlterField(
            model_name='provider',
            name='api_key',
            field=runs.models.fields.EncryptedTextField(blank=True, help_text='Stored encrypted.', verbose_name='API key'),
        ),
        migrations.AlterField(
            model_name='provider',
            name='api_key_env',
            field=models.CharField(blank=True, help_text='Read the key from this environment variable of the worker instead.', max_length=100, verbose_name='environment variable'),
        ),
        migrations.AlterField(
            model_name='provider',
            name='base_url',
            field=models.CharField(blank=True, help_text='For example http://localhost:11434/v1', max_length=500, validators=[runs.models.agents.check_base_url], verbose_name='base URL'),
        ),
        migrations.AlterField(
            model_name='provider',
            name='connect_seconds',
            field=models.FloatField(default=10, validators=[django.core.validators.MinValueValidator(0.1)], verbose_name='seconds to connect'),
        ),
        migrations.AlterField(
            model_name='provider',
            name='created_at',
            field=models.DateTimeField(auto_now_add=True, verbose_name='created'),
        ),
        migrations.AlterField(
            model_name='provider',
            name='kind',
            field=models.CharField(choices=[('openai', 'OpenAI-compatible endpoint'), ('demo', 'Built-in demo (no key, no network)')], default='openai', max_length=20, verbose_name='kind'),
        ),
        migrations.AlterField(
            model_name='provider',
            name='max_retries',
            field=models.PositiveSmallIntegerField(default=3, verbose_name='limit of retries'),
        ),
        migrations.AlterField(
            model_name='provider',
            name='name',
            field=models.CharField(max_length=100, unique=True, verbose_name='name'),
        ),
        migrations.AlterField(
            model_name='provider',
            name='silence_seconds',
            field=models.FloatField(default=120, help_text='How long the model may send nothing at all.', validators=[django.core.validators.MinValueValidator(0.1)], verbose_name='seconds of silence'),
        ),
        migrations.AlterField(
            model_name='provider',
            name='updated_at',
            field=models.DateTimeField(auto_now=True, verbose_name='changed'),
        ),
        migrations.AlterField(
            model_name='run',
            name='active_seconds',
            field=models.FloatField(default=0, help_text='Worked on, without the time it waited.', verbose_name='active seconds'),
        ),
        migrations.AlterField(
            model_name='run',
            name='agent',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='runs', to='runs.agent', verbose_name='agent'),
        ),
        migrations.AlterField(
            model_name='run',
            name='agent_version',
            field=models.PositiveIntegerField(verbose_name='agent version'),
        ),
        migrations.AlterField(
            model_name='run',
            name='attempt',
            field=models.PositiveIntegerField(default=0, verbose_name='attempt'),
        ),
        migrations.AlterField(
            model_name='run',
            name='body_digest',
            field=models.CharField(blank=True, max_length=64, verbose_name='digest of the body'),
        ),
        migrations.AlterField(
            model_name='run',
            name='completion_tokens',
            field=models.PositiveBigIntegerField(default=0, verbose_name='completion tokens'),
        ),
        migrations.AlterField(
            model_name='run',
            name='conversation',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='runs.conversation', verbose_name='conversation'),
        ),
        migrations.AlterField(
            model_name='run',
            name='cost',
            field=models.DecimalField(decimal_places=8, max_digits=14, null=True, verbose_name='cost'),
        ),
        migrations.AlterField(
            model_name='run',
            name='edits',
            field=models.PositiveIntegerField(default=0, help_text='How often its input was changed while it waited.', verbose_name='edits'),
        ),
        migrations.AlterField(
            model_name='run',
            name='ended_at',
            field=models.DateTimeField(null=True, verbose_name='ended'),
        ),
        migrations.AlterField(
            model_name='run',
            name='error',
            field=models.JSONField(null=True, verbose_name='error'),
        ),
        migrations.AlterField(
            model_name='run',
            name='first_token_at',
            field=models.DateTimeField(null=True, verbose_name='first token'),
        ),
        migrations.AlterField(
            model_name='run',
            name='has_token_streaming',
            field=models.BooleanField(default=True, verbose_name='token streaming'),
        ),
        migrations.AlterField(
            model_name='run',
            name='idempotency_key',
            field=models.CharField(blank=True, max_length=200, verbose_name='idempotency key'),
        ),
        migrations.AlterField(
            model_name='run',
            name='input',
            field=models.JSONField(help_text='A list of messages.', verbose_name='input'),
        ),
        migrations.AlterField(
            model_name='run',
            name='input_text',
            field=models.TextField(blank=True, verbose_name='text of the input'),
        ),
        migrations.AlterField(
            model_name='run',
            name='is_input_placed',
            field=models.BooleanField(default=False, verbose_name='input placed'),
        ),
        migrations.AlterField(
            model_name='run',
            name='is_usage_estimated',
            field=models.BooleanField(default=False, verbose_name='usage estimated'),
        ),
        migrations.AlterField(
            model_name='run',
            name='is_withdrawn',
            field=models.BooleanField(db_default=False, default=False, help_text='Taken back before it began: no part of the conversation.', verbose_name='withdrawn'),
        ),
        migrations.AlterField(
            model_name='run',
            name='last_worker',
            field=models.CharField(blank=True, db_default='', default='', help_text='Who took it last: its pool holds the agent.', max_length=100, verbose_name='last worker'),
        ),
        migrations.AlterField(
            model_name='run',
            name='lease_expires_at',
            field=models.DateTimeField(null=True, verbose_name='lease expires'),
        ),
        migrations.AlterField(
            model_name='run',
            name='losses',
            field=models.PositiveIntegerField(default=0, help_text='How often its worker was lost.', verbose_name='losses'),
        ),
        migrations.AlterField(
            model_name='run',
            name='max_cost',
            field=models.DecimalField(decimal_places=6, max_digits=12, null=True, verbose_name='limit of cost'),
        ),
        migrations.AlterField(
            model_name='run',
            name='max_seconds',
            field=models.FloatField(verbose_name='limit of seconds'),
        ),
        migrations.AlterField(
            model_name='run',
            name='max_steps',
            field=models.PositiveIntegerField(verbose_name='limit of steps'),
        ),
        migrations.AlterField(
            model_name='run',
            name='max_tokens',
            field=models.PositiveIntegerField(null=True, verbose_name='limit of tokens'),
        ),
        migrations.AlterField(
            model_name='run',
            name='metadata',
            field=models.JSONField(blank=True, default=dict, verbose_name='metadata'),
        ),
        migrations.AlterField(
            model_name='run',
            name='output',
            field=models.TextField(blank=True, verbose_name='output'),
        ),
        migrations.AlterField(
            model_name='run',
            name='owner',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runs', to=settings.AUTH_USER_MODEL, verbose_name='owner'),
        ),
        migrations.AlterField(
            model_name='run',
            name='prompt_tokens',
            field=models.PositiveBigIntegerField(default=0, verbose_name='prompt tokens'),
        ),
        migrations.AlterField(
            model_name='run',
            name='public_id',
            field=models.CharField(default=runs.models.ids.new_run_id, editable=False, max_length=40, unique=True, verbose_name='ID'),
        ),
        migrations.AlterField(
            model_name='run',
            name='queued_at',
            field=models.DateTimeField(verbose_name='queued at'),
        ),
        migrations.AlterField(
            model_name='run',
            name='reasoning_effort',
            field=models.CharField(blank=True, max_length=10, verbose_name='reasoning effort'),
        ),
        migrations.AlterField(
            model_name='run',
            name='receipt',
            field=models.JSONField(help_text='What a stop did, and how fast.', null=True, verbose_name='receipt'),
        ),
        migrations.AlterField(
            model_name='run',
            name='started_at',
            field=models.DateTimeField(null=True, verbose_name='started'),
        ),
        migrations.AlterField(
            model_name='run',
            name='status',
            field=models.CharField(choices=[('queued', 'queued'), ('running', 'running'), ('requires_approval', 'needs approval'), ('completed', 'completed'), ('failed', 'failed'), ('cancelled', 'stopped')], default='queued', max_length=20, verbose_name='status'),
        ),
        migrations.AlterField(
            model_name='run',
            name='steps',
            field=models.PositiveIntegerField(default=0, verbose_name='steps'),
        ),
        migrations.AlterField(
            model_name='run',
            name='stop_reason',
            field=models.CharField(blank=True, choices=[('end_turn', 'finished'), ('max_steps', 'step limit'), ('max_time', 'time limit'), ('budget', 'budget reached'), ('error', 'error'), ('cancelled', 'stopped')], max_length=20, verbose_name='stop reason'),
        ),
        migrations.AlterField(
            model_name='run',
            name='stop_requested_at',
            field=models.DateTimeField(null=True, verbose_name='stop requested'),
        ),
        migrations.AlterField(
            model_name='run',
            name='stop_requested_by',
            field=models.CharField(blank=True, max_length=150, verbose_name='stop requested by'),
        ),
        migrations.AlterField(
            model_name='run',
            name='stop_requested_via',
            field=models.CharField(blank=True, max_length=20, verbose_name='stop requested via'),
        ),
        migrations.AlterField(
            model_name='run',
            name='worker',
            field=models.CharField(blank=True, max_length=100, verbose_name='worker'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='active_runs',
            field=models.PositiveIntegerField(default=0, verbose_name='active runs'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='built_agents',
            field=models.PositiveBigIntegerField(db_default=0, default=0, help_text='Runs for which an agent was built.', verbose_name='built agents'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='is_draining',
            field=models.BooleanField(db_default=False, default=False, help_text='Takes no new runs.', verbose_name='draining'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='live_agents',
            field=models.PositiveIntegerField(db_default=0, default=0, help_text='In its pool.', verbose_name='live agents'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='max_runs',
            field=models.PositiveIntegerField(db_default=0, default=0, verbose_name='limit of runs'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='name',
            field=models.CharField(max_length=100, unique=True, verbose_name='name'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='pool',
            field=models.JSONField(default=dict, editable=False, verbose_name='pool'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='pool_at',
            field=models.DateTimeField(editable=False, null=True, verbose_name='pool seen'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='reused_agents',
            field=models.PositiveBigIntegerField(db_default=0, default=0, help_text='Runs that found their agent in the pool.', verbose_name='reused agents'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='seen_at',
            field=models.DateTimeField(db_index=True, verbose_name='seen'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='started_at',
            field=models.DateTimeField(verbose_name='started'),
        ),
        migrations.AlterField(
            model_name='worker',
            name='version',
            field=models.CharField(blank=True, db_default='', default='', max_length=40, verbose_name='version'),
        ),
        migrations.RunPython(renew_demo_questions, migrations.RunPython.noop, elidable=True),
    ]
