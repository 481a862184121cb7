"""What a new site gets at its first start: a demo agent that needs no key, a first admin, and an API key for them.

Each part is made once and never again: whoever deletes the demo agent or renames the admin has a reason.
"""

import secrets
from dataclasses import dataclass

from django.contrib.auth.models import User

from runs import actions
from runs.database import writing
from runs.models import Agent, ApiKey, Provider

ADMIN = "admin"

DEMO_DESCRIPTION = "Shows what an agent does here, without a key and without a network. Ask it about this site."
DEMO_INSTRUCTIONS = (
    "You are the demo agent of Agentsite, a self-hosted web console and agent backend. You introduce the product to "
    "somebody who has just installed it. Answer briefly and in Markdown. When you are asked for the time, a "
    "calculation, a wait or a note, use your tools instead of guessing."
)
DEMO_EXAMPLES = ["What can you do?", "What time is it, and what is 17*23?", "Wait 20 seconds"]
DEMO_TOOLS = ["current_time", "calculator", "wait", "remember", "recall"]


@dataclass(frozen=True)
class FirstAccount:
    """What the owner needs to get in. It is stored nowhere in this form, so it is shown once or lost."""

    user_name: str
    password: str
    api_key: str


def set_up_site() -> FirstAccount | None:
    """Make what is missing; the account only where there is no admin yet."""
    with writing():
        make_demo_agent()
        return make_first_admin()


def make_demo_agent() -> None:
    if Provider.objects.filter(kind=Provider.Kind.DEMO).exists() or Agent.objects.filter(slug="demo").exists():
        return
    provider, _ = Provider.objects.get_or_create(name="Demo", defaults={"kind": Provider.Kind.DEMO})
    actions.save_agent(
        Agent(
            slug="demo",
            name="Demo",
            description=DEMO_DESCRIPTION,
            instructions=DEMO_INSTRUCTIONS,
            examples=DEMO_EXAMPLES,
            provider=provider,
            model="demo",
            tools=DEMO_TOOLS,
            has_parallel_tools=True,
            is_default=not Agent.objects.filter(is_default=True).exists(),
        )
    )


def make_first_admin() -> FirstAccount | None:
    if User.objects.filter(is_superuser=True).exists() or User.objects.filter(username=ADMIN).exists():
        return None
    password = secrets.token_urlsafe(12)
    admin = User.objects.create_superuser(ADMIN, password=password)
    _, key = ApiKey.make(name="first key", user=admin)
    return FirstAccount(ADMIN, password, key)
