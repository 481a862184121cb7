import asyncio
from dataclasses import dataclass

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client as DjangoClient

from runs import bell
from runs.database import in_writer
from tests.api.asking import Client
from tests.api.completing import Hands
from tests.factories import make_agent, make_key

# The length that Django gives a CSRF secret.
CSRF = "c" * 32


@dataclass
class People:
    """alice and bob own what they start; charlie is staff. Each has a client with a key of their own."""

    alice: User
    bob: User
    charlie: User
    as_alice: Client
    as_bob: Client
    as_charlie: Client
    stranger: Client

    async def in_browser(self, user: User, **headers: str) -> Client:
        """A client with the session of a browser."""

        def sign_in() -> str:
            browser = DjangoClient()
            browser.force_login(user)
            return browser.cookies[settings.SESSION_COOKIE_NAME].value

        session = await in_writer(sign_in)
        cookies = f"{settings.SESSION_COOKIE_NAME}={session}; {settings.CSRF_COOKIE_NAME}={CSRF}"
        return Client({"Cookie": cookies, **{name.replace("_", "-"): value for name, value in headers.items()}})


def make_people() -> People:
    make_agent()
    alice = User.objects.create_user("alice")
    bob = User.objects.create_user("bob")
    charlie = User.objects.create_user("charlie", is_staff=True)
    clients = [Client.with_key(make_key(user)) for user in (alice, bob, charlie)]
    return People(alice, bob, charlie, *clients, stranger=Client())


@pytest.fixture
async def people(transactional_db: None) -> People:
    bell.live_at(asyncio.get_running_loop())
    return await in_writer(make_people)


@pytest.fixture
async def hands(people: People) -> Hands:
    hands = Hands()
    await hands.listen()
    return hands
