"""A site's data as the tests here want them, made once and copied: the demo model with the tools that leave marks.

python -m tests.faults.seed         prints the API key
"""

import os

import django


def plant() -> str:
    """An API key, and two agents: one runs its tools one after another, one in parallel."""
    from django.core.management import call_command

    from runs import actions
    from runs.models import Agent, Provider
    from runs.setup import set_up_site

    call_command("migrate", verbosity=0, interactive=False)
    account = set_up_site()
    assert account is not None
    provider = Provider.objects.get(kind=Provider.Kind.DEMO)
    tools = [
        "mark",
        "mark_if_approved",
        "mark_and_hang",
        "mark_and_block",
        "mark_and_die",
        "die_and_mark",
        "shout",
        "wait",
    ]
    for slug in ("sequential", "parallel"):
        agent = Agent(slug=slug, name=slug, provider=provider, model="demo", tools=tools, max_steps=5)
        agent.has_parallel_tools = slug == "parallel"
        actions.save_agent(agent)
    return account.api_key


if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "agentsite.settings"
    django.setup()
    print(plant())
