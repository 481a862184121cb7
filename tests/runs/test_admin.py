"""The admin: everything can be looked at, at a constant price; what may be done there goes through the actions."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from runs import access, actions, events
from runs.actions import RunOrder
from runs.admin.agents import AMOUNTS
from runs.admin.json_field import is_storable
from runs.models import (
    Agent,
    AgentVersion,
    ApiKey,
    Approval,
    Event,
    Message,
    Note,
    OutboxEmail,
    Provider,
    Run,
    Worker,
)
from runs.setup import set_up_site

pytestmark = pytest.mark.django_db

READ_ONLY = ["approval", "conversation", "event", "message", "note", "outboxemail", "run", "worker"]
TABLES = ["agent", "apikey", "provider", *READ_ONLY]


@pytest.fixture
def alice() -> User:
    return User.objects.create_user("alice")


@pytest.fixture
def charlie() -> User:
    return User.objects.create_superuser("charlie")


@pytest.fixture
def admin(client: Client, charlie: User) -> Client:
    set_up_site()
    client.force_login(charlie)
    return client


def submit(user: User, text: str = "hello") -> Run:
    return actions.submit_run(user, RunOrder([{"role": "user", "content": text}]))


def say(run: Run) -> None:
    Message.objects.create(conversation=run.conversation, run=run, position=1, role="user", content="hello")


def ask(run: Run, name: str = "send_email") -> Approval:
    return Approval.objects.create(
        run=run,
        tool_call_id="call_1",
        position=2,
        name=name,
        arguments={"to": "ada@example.com"},
        schema={"type": "object"},
        requested_at=timezone.now(),
        on_expiry="deny",
    )


def fill_tables(user: User, count: int) -> None:
    """So many rows in every table, none sharing its relations with another."""
    for number in range(count):
        run = submit(user, f"question {number}")
        say(run)
        Note.objects.create(conversation=run.conversation, key="k", text="t")
        OutboxEmail.objects.create(conversation=run.conversation, to="ada@example.com", subject="s", body="b")
        ask(run)
        Worker.objects.create(name=f"w{run.pk}", started_at=timezone.now(), seen_at=timezone.now())
        owner = User.objects.create_user(f"user of {run.pk}")
        ApiKey.make(name="key", user=owner)
        provider = Provider.objects.create(name=f"p{run.pk}", base_url="http://localhost/v1")
        actions.save_agent(Agent(slug=f"a{run.pk}", name="A", provider=provider, model="m"), owner)


def list_page(table: str) -> str:
    return reverse(f"admin:runs_{table}_changelist")


def row_page(row: Any) -> str:
    return reverse(f"admin:runs_{row._meta.model_name}_change", args=[row.pk])


def form_of(client: Client, url: str) -> dict[str, Any]:
    """What a browser would send back, unchanged."""
    response = client.get(url)
    form = response.context["adminform"].form
    sent: dict[str, Any] = {}
    for field in form:
        value = field.value()
        if value is not None and value is not False:
            sent[field.html_name] = value
    for inline in response.context["inline_admin_formsets"]:
        for field in inline.formset.management_form:
            sent[field.html_name] = field.value()
    return sent


@pytest.mark.parametrize("table", TABLES)
def test_a_list_costs_the_same_for_one_row_and_for_ten(admin: Client, alice: User, table: str) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            assert admin.get(list_page(table)).status_code == 200
        return len(captured)

    fill_tables(alice, 1)
    few = queries()
    fill_tables(alice, 9)
    assert queries() == few


@pytest.mark.parametrize("table", TABLES)
def test_every_row_has_a_page_and_every_list_can_be_searched(admin: Client, alice: User, table: str) -> None:
    fill_tables(alice, 1)
    page = admin.get(list_page(table), {"q": "a"})
    assert page.status_code == 200
    model = page.context["cl"].model
    response = admin.get(row_page(model.objects.first()))
    assert response.status_code == 200


@pytest.mark.parametrize("table", READ_ONLY)
def test_what_runs_have_written_nobody_edits(admin: Client, alice: User, table: str) -> None:
    fill_tables(alice, 1)
    row = admin.get(list_page(table)).context["cl"].model.objects.first()
    assert admin.get(reverse(f"admin:runs_{table}_add")).status_code == 403
    assert admin.post(row_page(row), {}).status_code == 403
    assert admin.post(reverse(f"admin:runs_{table}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403


def test_only_staff_get_in(client: Client, alice: User) -> None:
    client.force_login(alice)
    for table in TABLES:
        assert client.get(list_page(table)).status_code == 302


def test_filters_of_the_big_tables_work(admin: Client, alice: User) -> None:
    run = submit(alice)
    assert admin.get(list_page("event"), {"type": events.RUN_QUEUED}).context["cl"].result_count == 1
    assert admin.get(list_page("event"), {"type": events.RUN_FAILED}).context["cl"].result_count == 0
    say(run)
    assert admin.get(list_page("message"), {"role": "user"}).context["cl"].result_count == 1
    assert admin.get(list_page("message"), {"role": "tool"}).context["cl"].result_count == 0


def test_a_run_leads_to_its_own_events_and_messages(admin: Client, alice: User) -> None:
    run, other = submit(alice), submit(alice)
    say(run)
    say(other)
    ask(run)
    ask(other)
    page = admin.get(row_page(run)).content.decode()
    for model in (Approval, Event, Message):
        link = re.search(rf'href="(/admin/runs/{model._meta.model_name}/\?run__exact=\d+)">1</a>', page)
        assert link is not None
        assert {row.run for row in admin.get(link[1]).context["cl"].result_list} == {run}


# -- stopping


def stop(client: Client, *runs: Run) -> str:
    chosen = {"action": "stop_runs", "_selected_action": [run.pk for run in runs]}
    response = client.post(list_page("run"), chosen, follow=True)
    return "; ".join(map(str, response.context["messages"]))


def test_staff_can_stop_runs(admin: Client, alice: User) -> None:
    run = submit(alice)
    assert f"{run}: stop requested." in stop(admin, run)
    run.refresh_from_db()
    assert (run.status, run.stop_requested_by, run.stop_requested_via) == ("cancelled", "charlie", "admin")


def test_a_run_that_has_ended_is_said_to_have_ended(admin: Client, alice: User) -> None:
    run = submit(alice)
    actions.request_stop(run.pk, by="alice", via="api")
    assert f"{run}: The run has ended already." in stop(admin, run)


def test_who_may_only_look_cannot_stop(client: Client, alice: User) -> None:
    set_up_site()
    run = submit(alice)
    dora = User.objects.create_user("dora", is_staff=True)
    dora.user_permissions.add(Permission.objects.get(codename="view_run"))
    client.force_login(dora)
    assert client.get(list_page("run")).status_code == 200
    stop(client, run)
    run.refresh_from_db()
    assert run.status == "queued"


# -- providers


@pytest.fixture
def provider() -> Provider:
    return Provider.objects.create(name="Models", base_url="http://models:8000/v1", api_key="top-secret")


def test_a_providers_key_is_never_shown(admin: Client, provider: Provider) -> None:
    pages = admin.get(row_page(provider)).content.decode() + admin.get(list_page("provider")).content.decode()
    assert "top-secret" not in pages
    assert ">set<" in pages


def test_a_providers_key_is_stored_encrypted(provider: Provider) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT api_key FROM runs_provider WHERE id = %s", [provider.pk])
        assert "top-secret" not in cursor.fetchone()[0]


@pytest.mark.parametrize(
    ("change", "key"),
    [({}, "top-secret"), ({"new_api_key": "newer"}, "newer"), ({"forgets_api_key": "on"}, "")],
)
def test_a_providers_key_is_kept_replaced_or_forgotten(
    admin: Client, provider: Provider, change: dict[str, str], key: str
) -> None:
    assert admin.post(row_page(provider), {**form_of(admin, row_page(provider)), **change}).status_code == 302
    provider.refresh_from_db()
    assert (provider.api_key, provider.base_url) == (key, "http://models:8000/v1")


def test_an_endpoint_needs_an_address(admin: Client, provider: Provider) -> None:
    response = admin.post(row_page(provider), {**form_of(admin, row_page(provider)), "base_url": ""})
    assert "An endpoint needs its address." in response.content.decode()


# -- agents


def test_saving_an_agent_makes_a_version_with_its_author(admin: Client, charlie: User) -> None:
    agent = Agent.objects.get(slug="demo")
    agent.instructions = "Be kind.\nBe careful."
    agent.save()
    AgentVersion.objects.all().delete()
    actions.save_agent(agent)
    form = form_of(admin, row_page(agent))
    assert form["tools"] == agent.tools
    # As a browser does it: checkboxes in the order of the page, lines with two characters at their end.
    form.update(tools=sorted(agent.tools), instructions="Be kind.\r\nBe careful.")
    assert admin.post(row_page(agent), form).status_code == 302
    assert AgentVersion.objects.count() == 1, "nothing changed, so nothing is new"

    change = {"instructions": "Be brief.", "tools": ["wait"], "examples": "One?\n\n Two? \n"}
    assert admin.post(row_page(agent), {**form, **change}).status_code == 302
    agent.refresh_from_db()
    assert (agent.version, agent.tools, agent.examples) == (2, ["wait"], ["One?", "Two?"])
    assert AgentVersion.objects.get(number=2).created_by == charlie


def test_sampling_must_be_an_object(admin: Client) -> None:
    agent = Agent.objects.get(slug="demo")
    response = admin.post(row_page(agent), {**form_of(admin, row_page(agent)), "sampling": "[1]"})
    assert "Give an object" in response.content.decode()


@pytest.mark.parametrize("field", ["sampling", "approvals"])
@pytest.mark.parametrize(
    "text",
    [
        *("nope", '{"wait": NaN}', '{"wait": 1e999}', '{"wait": ' + "9" * 5000 + "}", '{"wait": ' + "[" * 100_000),
        *(r'{"\ud800": "always"}', r'{"wait": "\u0000"}', '{"wait": ' + '{"not": ' * 500 + "{}" + "}" * 501),
    ],
    ids=lambda text: text[:20],
)
def test_json_that_cannot_be_kept_is_refused_and_comes_back_as_typed(admin: Client, field: str, text: str) -> None:
    agent = Agent.objects.get(slug="demo")
    response = admin.post(row_page(agent), {**form_of(admin, row_page(agent)), field: text})
    assert response.status_code == 200
    assert "Enter a valid JSON." in response.content.decode()
    assert escape(text) in response.content.decode()


def test_a_backslash_and_a_u_are_no_nul() -> None:
    assert is_storable(r'{"pattern": "\\u0000"}')
    assert not is_storable(r'{"pattern": ["\u0000"]}')


@pytest.mark.parametrize("field", AMOUNTS)
def test_no_amount_is_below_nothing(admin: Client, field: str) -> None:
    agent = Agent.objects.get(slug="demo")
    response = admin.post(row_page(agent), {**form_of(admin, row_page(agent)), field: "-1"})
    assert "Ensure this value is greater than or equal to 0." in response.content.decode()


def test_another_agent_can_become_the_default_one(admin: Client, provider: Provider) -> None:
    other = actions.save_agent(Agent(slug="other", name="Other", provider=provider, model="m"))
    form = {**form_of(admin, row_page(other)), "is_default": "on"}
    assert admin.post(row_page(other), form).status_code == 302
    assert Agent.objects.get(is_default=True) == other


def test_an_agent_keeps_a_tool_that_is_gone_and_its_rule(admin: Client) -> None:
    agent = Agent.objects.get(slug="demo")
    agent.approvals = {"wait": "always", "a tool that is gone": "always"}
    agent.tools = [*agent.tools, "a tool that is gone"]
    actions.save_agent(agent)
    assert admin.post(row_page(agent), form_of(admin, row_page(agent))).status_code == 302
    agent.refresh_from_db()
    assert agent.approvals == {"wait": "always", "a tool that is gone": "always"}
    assert "a tool that is gone" in agent.tools
    assert agent.version == 2, "nothing was changed by the form"


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("[]", None),
        ("", None),
        ('{"wait": "always", "send_email": "never"}', None),
        ('{"wait": {"properties": {"seconds": {"minimum": 60}}}}', None),
        ('["wait"]', "Give an object"),
        ('{"fly": "always"}', "does not have the tool &#x27;fly&#x27;"),
        ('{"wait": "sometimes"}', "The rule for wait must be"),
        ('{"wait": {}}', "The rule for wait must be"),
        (
            '{"wait": {"properties": {"seconds": {"minimum": "x"}}}}',
            "properties.seconds.minimum: &#x27;x&#x27; is not of",
        ),
        ('{"wait": {"properties": {"hours": {"minimum": 1}}}}', "argument &#x27;hours&#x27;"),
        ('{"wait": {"seconds": {"minimum": 60}}}', "no keyword of JSON schema"),
        ('{"wait": ', "Enter a valid JSON"),
    ],
)
def test_approval_rules_are_checked_where_they_are_saved(admin: Client, rules: str, words: str | None) -> None:
    agent = Agent.objects.get(slug="demo")
    form = {**form_of(admin, row_page(agent)), "approvals": rules}
    response = admin.post(row_page(agent), form)
    assert response.status_code == (302 if words is None else 200)
    if words is not None:
        assert words in response.content.decode()
        agent.refresh_from_db()
        assert agent.approvals == {}


def test_who_decided_what_can_be_looked_up(admin: Client, alice: User) -> None:
    """R14: read-only history, with filters."""
    approval = ask(submit(alice))
    decided = {"status": "approved", "decided_by": "bob", "decided_via": "api", "decided_at": timezone.now()}
    Approval.objects.filter(pk=approval.pk).update(**decided, edited_arguments={"to": "someone else"})
    ask(submit(alice), "wait")
    assert admin.get(list_page("approval"), {"status__exact": "approved"}).context["cl"].result_count == 1
    page = admin.get(row_page(approval)).content.decode()
    assert "bob" in page
    assert "ada@example.com" in page
    assert "someone else" in page


def test_an_agents_page_shows_the_newest_versions_at_a_constant_price(admin: Client) -> None:
    agent = Agent.objects.get(slug="demo")
    for number in range(30):
        agent.instructions = f"version {number}"
        actions.save_agent(agent, User.objects.create_user(f"author{number}"))
    with CaptureQueriesContext(connection) as captured:
        page = admin.get(row_page(agent)).content.decode()
    assert len(captured) < 20
    assert "version 29" in page
    assert "version 5&" not in page


# -- API keys


def test_a_new_key_is_shown_once_and_works(admin: Client, alice: User) -> None:
    form = {"name": "laptop", "user": alice.pk, "expires_at_0": "", "expires_at_1": ""}
    response = admin.post(reverse("admin:runs_apikey_add"), form, follow=True)
    text = re.search(r"<code>(ask_[\w-]+)</code>", response.content.decode())
    assert text is not None
    key = access.find_key(text[1])
    assert key is not None
    assert (key.name, key.user) == ("laptop", alice)
    assert text[1] not in admin.get(list_page("apikey")).content.decode()
    assert text[1] not in admin.get(row_page(key)).content.decode()


def test_keys_can_be_revoked(admin: Client, alice: User) -> None:
    key, text = ApiKey.make(name="laptop", user=alice)
    admin.post(list_page("apikey"), {"action": "revoke_keys", "_selected_action": [key.pk]})
    assert access.find_key(text) is None
    assert "revoked" in admin.get(list_page("apikey")).content.decode()


def test_the_admin_is_consistent() -> None:
    call_command("check", "--tag", "admin")
