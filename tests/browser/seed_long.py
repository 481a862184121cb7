"""A long conversation of alice, straight into the tables of a site. Prints its id.

python -m tests.browser.seed_long <agent> 5000
"""

import os
import sys

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentsite.settings")


def plant(slug: str, turns: int) -> str:
    django.setup()
    from django.contrib.auth.models import User

    from runs.models import Agent
    from tests.factories import answered_turns

    return answered_turns(User.objects.get(username="alice"), turns, Agent.objects.get(slug=slug)).public_id


if __name__ == "__main__":
    print(plant(sys.argv[1], int(sys.argv[2])))
