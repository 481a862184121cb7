"""Data for the browser tests, made once: a site after its first start, and three people. Prints nothing.

python -m tests.browser.seed
"""

import os

import django
from django.core.management import call_command

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentsite.settings")


def plant() -> None:
    django.setup()
    from django.contrib.auth.models import User

    from runs.setup import set_up_site

    call_command("migrate", verbosity=0)
    set_up_site()
    for name in ("alice", "bob"):
        User.objects.create_user(name, password="right")
    User.objects.create_user("charlie", password="right", is_staff=True, is_superuser=True)


if __name__ == "__main__":
    plant()
