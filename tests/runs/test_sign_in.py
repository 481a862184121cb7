"""Passwords cannot be tried for ever, and who is made to wait is told so."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from runs import sign_in
from runs.sign_in import MOST_TRIES, WINDOW

PAGES = ["/accounts/login/", "/admin/login/"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """In the first minute of a window."""
    clock = {"now": 1_000_000.0 * WINDOW}
    monkeypatch.setattr(sign_in, "time", lambda: clock["now"])
    return clock


@pytest.fixture(autouse=True)
def alice(db: None) -> User:
    return User.objects.create_user("alice", password="right", is_staff=True)


def enter(client: Client, page: str, password: str, **more: Any) -> tuple[int, str]:
    answer = client.post(page, {"username": "alice", "password": password}, **more)
    return answer.status_code, answer.content.decode()


@pytest.mark.parametrize("page", PAGES)
def test_after_ten_wrong_passwords_not_even_the_right_one_is_taken(
    client: Client, clock: dict[str, float], page: str
) -> None:
    for _ in range(MOST_TRIES):
        status, text = enter(client, page, "wrong")
        assert (status, "Too many" in text) == (200, False)
    status, text = enter(client, page, "right")
    assert (status, "Too many wrong passwords. Try again in 5 minutes." in text) == (200, True)
    for other in PAGES:
        assert enter(client, other, "right")[0] == 200, "the other page is no way around it"
    assert enter(client, page, "right", REMOTE_ADDR="10.0.0.9")[0] == 302, "somebody else is not locked out"
    client.logout()
    clock["now"] += WINDOW
    assert enter(client, page, "right")[0] == 302


def test_behind_a_proxy_the_address_is_the_one_that_it_has_seen(
    client: Client, clock: dict[str, float], settings: Any
) -> None:
    settings.IS_PRODUCTION = True
    for number in range(MOST_TRIES + 1):
        enter(client, PAGES[0], "wrong", HTTP_X_FORWARDED_FOR=f"10.1.1.{number}, 10.0.0.1")
    assert enter(client, PAGES[0], "right", HTTP_X_FORWARDED_FOR="10.1.1.99, 10.0.0.1")[0] == 200
    assert enter(client, PAGES[0], "right", HTTP_X_FORWARDED_FOR="10.0.0.1, 10.0.0.2")[0] == 302
    settings.IS_PRODUCTION = False
    client.logout()
    for _ in range(MOST_TRIES + 1):
        enter(client, PAGES[0], "wrong", HTTP_X_FORWARDED_FOR="10.0.0.3")
    assert enter(client, PAGES[0], "right", HTTP_X_FORWARDED_FOR="10.0.0.4")[0] == 200, "without a proxy it is a claim"


@pytest.mark.parametrize(
    ("addresses", "other"),
    [
        (["2001:db8:0:1::{:x}", "2001:db8:0:1:ffff::{:x}"], "2001:db8:0:2::1"),
        (["10.0.0.1:40{:02}", "[::ffff:10.0.0.1]:{}", "::ffff:10.0.0.1"], "10.0.0.2:4000"),
        (["[2001:db8::{:x}]:{}", "[2001:db8::{:x}]"], "[2001:db9::1]"),
        (["unknown"], "hidden"),
    ],
)
def test_whoever_has_many_addresses_or_ports_is_one(
    client: Client, clock: dict[str, float], settings: Any, addresses: list[str], other: str
) -> None:
    """As proxies write them."""
    settings.IS_PRODUCTION = True
    for number in range(MOST_TRIES + 1):
        address = addresses[number % len(addresses)].format(number, number)
        enter(client, PAGES[0], "wrong", HTTP_X_FORWARDED_FOR=address)
    assert enter(client, PAGES[0], "right", HTTP_X_FORWARDED_FOR=addresses[0].format(99, 99))[0] == 200
    assert enter(client, PAGES[0], "right", HTTP_X_FORWARDED_FOR=other)[0] == 302


def test_whoever_signs_in_may_be_wrong_again(client: Client, clock: dict[str, float]) -> None:
    for _ in range(2):
        for _ in range(MOST_TRIES - 1):
            enter(client, "/accounts/login/", "wrong")
        assert enter(client, "/accounts/login/", "right")[0] == 302
        client.logout()


def test_rubbish_as_a_name_is_only_wrong(client: Client, clock: dict[str, float]) -> None:
    for name in ("", "x" * 5000, "a\0b"):
        assert client.post("/accounts/login/", {"username": name, "password": "x"}).status_code == 200
