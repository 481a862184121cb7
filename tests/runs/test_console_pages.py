"""The pages of the console, as the server renders them."""

from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from runs import actions
from runs.models import Conversation, Run
from tests.factories import end_run, finished_run, make_agent, make_run, start_run, waiting_run

PAGES = ("/", "/inbox", "/history", "/search", "/preferences", "/accounts/password/")


@pytest.fixture
def alice(db: None) -> User:
    make_agent(examples=["What can you do?", "Count", "Wait", "One too many"], description="Good at tests.")
    return User.objects.create_user("alice")


@pytest.fixture
def bob(db: None) -> User:
    return User.objects.create_user("bob")


@pytest.fixture
def charlie(db: None) -> User:
    return User.objects.create_user("charlie", is_staff=True)


@pytest.fixture
def as_alice(client: Client, alice: User) -> Client:
    client.force_login(alice)
    return client


def text_of(client: Client, path: str, status: int = 200) -> str:
    response = client.get(path)
    assert response.status_code == status, path
    return response.content.decode()


# -- who sees what -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*PAGES[1:], "/sidebar", "/c/conv_0", "/runs/run_0"])
def test_strangers_are_asked_to_sign_in_and_come_back(client: Client, path: str) -> None:
    response = client.get(path)
    assert (response.status_code, response.headers["Location"]) == (302, f"/accounts/login/?next={path}")


def test_a_conversation_is_for_its_owner_and_for_staff_to_look_at(
    client: Client, alice: User, bob: User, charlie: User
) -> None:
    run = make_run(alice)
    path = f"/c/{run.conversation.public_id}"
    client.force_login(bob)
    text_of(client, path, 404)
    text_of(client, f"/runs/{run.public_id}", 404)
    client.force_login(charlie)
    page = text_of(client, path)
    assert "data-composer" not in page
    assert "Only its owner writes here" in page
    client.force_login(alice)
    assert "data-composer" in text_of(client, path)


def test_an_agent_that_is_switched_off_can_be_read_but_not_asked(as_alice: Client, alice: User) -> None:
    run = finished_run(alice)
    run.agent.is_active = False
    actions.save_agent(run.agent)
    page = text_of(as_alice, f"/c/{run.conversation.public_id}")
    assert "This agent is switched off" in page
    assert "data-composer" not in page


def test_a_permanent_link_leads_to_the_runs_place(as_alice: Client, alice: User) -> None:
    run = finished_run(alice)
    response = as_alice.get(f"/runs/{run.public_id}")
    assert response.headers["Location"] == f"/c/{run.conversation.public_id}?run={run.public_id}#{run.public_id}"


# -- starting ----------------------------------------------------------------------------------------------------------


def test_the_front_page_shows_agents_with_a_few_questions_each(as_alice: Client) -> None:
    page = text_of(as_alice, "/")
    assert "Good at tests." in page
    assert "What can you do?" in page
    assert "One too many" not in page


def test_a_question_starts_a_conversation_and_a_double_click_starts_one(as_alice: Client) -> None:
    form = {"agent": "agent", "input": "hello", "key": "k"}
    first, second = as_alice.post("/start", form), as_alice.post("/start", form)
    run = Run.objects.get()
    assert first.headers["Location"] == second.headers["Location"] == f"/c/{run.conversation.public_id}"
    assert run.input_text == "hello"


def test_another_question_with_the_same_form_is_another_conversation(as_alice: Client) -> None:
    for text in ("hello", "good bye"):
        as_alice.post("/start", {"agent": "agent", "input": text, "key": "k"})
    assert Conversation.objects.count() == 2


@pytest.mark.parametrize(("form", "status"), [({"input": "  "}, 400), ({"input": "hello", "agent": "nobody"}, 404)])
def test_what_cannot_be_started_is_explained_and_kept(as_alice: Client, form: dict[str, str], status: int) -> None:
    response = as_alice.post("/start", {"agent": "agent", **form})
    page = response.content.decode()
    assert response.status_code == status
    assert 'role="alert"' in page
    assert form["input"] in page
    assert not Run.objects.exists()


def test_a_site_without_agents_tells_staff_what_to_do_and_others_whom_to_ask(client: Client, bob: User) -> None:
    client.force_login(bob)
    assert "Somebody with an admin account" in text_of(client, "/")
    User.objects.filter(pk=bob.pk).update(is_staff=True)
    assert "/admin/runs/agent/add/" in text_of(client, "/")


# -- lists -------------------------------------------------------------------------------------------------------------


def test_the_sidebar_shows_ones_own_conversations_by_age_and_what_they_do(
    as_alice: Client, alice: User, bob: User
) -> None:
    old = finished_run(alice, "an old question").conversation
    Conversation.objects.filter(pk=old.pk).update(updated_at=timezone.now() - timedelta(days=3))
    start_run(make_run(alice, "a running question"))
    make_run(bob, "not hers")
    page = text_of(as_alice, "/sidebar")
    assert page.index("Today") < page.index("a running question") < page.index("Last 7 days") < page.index("an old")
    assert 'data-status="running"' in page
    assert "not hers" not in page


def test_the_sidebar_of_staff_is_not_everybodys(client: Client, alice: User, charlie: User) -> None:
    make_run(alice, "a question")
    client.force_login(charlie)
    assert "a question" not in text_of(client, "/sidebar")


def test_a_long_sidebar_costs_no_more_queries_than_a_short_one_and_can_be_prolonged(
    as_alice: Client, alice: User, django_assert_max_num_queries: object
) -> None:
    for number in range(45):
        make_run(alice, f"question {number}")
    with django_assert_max_num_queries(7):  # type: ignore[operator]
        page = text_of(as_alice, "/sidebar")
    assert page.count('<li class="entry"') == 40
    assert 'data-more="80"' in page
    assert text_of(as_alice, "/sidebar?limit=80").count('<li class="entry"') == 45
    for nonsense in ("0", "-1", "x", "٣", "9" * 50):
        text_of(as_alice, f"/sidebar?limit={nonsense}")


def test_the_history_is_filtered_by_status_agent_and_words(as_alice: Client, alice: User) -> None:
    make_agent("other")
    finished_run(alice, "finished apples")
    finished_run(alice, "pears of another", agent_slug="other")
    start_run(make_run(alice, "running plums"))
    assert all(word in text_of(as_alice, "/history") for word in ("apples", "pears", "plums"))

    def shown(query: str) -> list[str]:
        page = text_of(as_alice, f"/history?{query}&fragment")
        return [word for word in ("apples", "pears", "plums") if word in page]

    assert shown("status=running") == ["plums"]
    assert shown("agent=other") == ["pears"]
    assert shown("q=apples") == ["apples"]
    assert shown("q=nothing+like+it") == []
    assert shown("status=nonsense") == ["apples", "pears", "plums"]


def test_the_history_has_a_stop_on_each_active_row_and_no_other(as_alice: Client, alice: User) -> None:
    finished_run(alice)
    run = start_run(make_run(alice))
    page = text_of(as_alice, "/history?fragment")
    assert page.count("data-stop=") == 1
    assert f'data-stop="{run.public_id}"' in page


def test_the_history_goes_on_where_its_page_ends(as_alice: Client, alice: User) -> None:
    for number in range(31):
        make_run(alice, f"question {number:02}")
    page = text_of(as_alice, "/history?fragment")
    assert "question 30" in page
    assert "question 00" not in page
    older = page.split('href="/history?cursor=')[1].split('"')[0]
    assert "question 00" in text_of(as_alice, f"/history?cursor={older}")
    text_of(as_alice, "/history?cursor=nonsense", 400)


def test_the_inbox_holds_what_waits_for_me_and_the_badge_counts_it(
    as_alice: Client, alice: User, bob: User, charlie: User
) -> None:
    assert "Nothing waits for you" in text_of(as_alice, "/inbox")
    run = waiting_run(alice, "call_1")
    page = text_of(as_alice, "/inbox")
    assert f"/runs/{run.public_id}" in page
    assert "data-waiting>1<" in page
    assert "<title>(1) " in page
    for user, is_theirs in ((bob, False), (charlie, True)):
        as_alice.force_login(user)
        assert (f"/runs/{run.public_id}" in text_of(as_alice, "/inbox?fragment")) == is_theirs


def test_search_finds_titles_and_what_was_said_but_nothing_of_others(as_alice: Client, alice: User, bob: User) -> None:
    first = finished_run(alice, "apples").conversation
    end_run(start_run(make_run(alice, "again", conversation_id=first.public_id)), output="There are pears.")
    finished_run(bob, "apples and pears of bob")

    def found(words: str) -> bool:
        page = text_of(as_alice, f"/search?fragment&q={words}")
        assert "of bob" not in page
        return first.public_id in page

    assert found("apples")
    assert found("PEARS")
    assert found("pears+apples")
    assert not found("plums")
    assert found("")
    assert "Nothing found" in text_of(as_alice, "/search?q=plums")


def test_search_shows_where_it_found_the_words_and_leads_there(as_alice: Client, alice: User) -> None:
    first = finished_run(alice, "fruit").conversation
    said = f"{'Before that. ' * 30}There are <b>Pears</b>\n\nand figs & plums. {'And so on. ' * 30}"
    run = end_run(start_run(make_run(alice, "which?", conversation_id=first.public_id)), output=said)
    finished_run(alice, "more", conversation_id=first.public_id)
    for path in ("/search?fragment&q=pears+fruit", "/search?q=pears+fruit"):
        page = text_of(as_alice, path)
        assert "There are &lt;b&gt;<mark>Pears</mark>&lt;/b&gt; and figs &amp; plums." in page
        assert "><mark>fruit</mark></" in page, "the title's own words are marked there"
        assert f'href="/c/{first.public_id}?run={run.public_id}#{run.public_id}"' in page
        assert page.count("Before that.") < 5
        assert page.count("And so on.") < 10


def test_what_the_title_tells_needs_no_excerpt(as_alice: Client, alice: User) -> None:
    run = finished_run(alice, "apples")
    page = text_of(as_alice, "/search?fragment&q=apples")
    assert "found-excerpt" not in page
    assert f'href="/c/{run.conversation.public_id}"' in page


def test_what_was_taken_back_before_its_turn_is_not_found(as_alice: Client, alice: User) -> None:
    first = start_run(make_run(alice, "apples"))
    run = make_run(alice, "pears", conversation_id=first.conversation.public_id)
    assert run.public_id in text_of(as_alice, "/search?fragment&q=pears")
    actions.withdraw_run(run.pk, by="alice", via="console")
    assert "Nothing found" in text_of(as_alice, "/search?fragment&q=pears")


# -- preferences, language, policy -------------------------------------------------------------------------------------


def test_preferences_are_kept_and_shown_on_every_page(as_alice: Client) -> None:
    as_alice.post("/preferences", {"theme": "dark", "language": "de"})
    page = text_of(as_alice, "/")
    assert '<html lang="de" data-theme="dark" data-shortcuts="off" data-user=' in page
    as_alice.post("/preferences", {"theme": "nonsense", "language": "xx", "shortcuts": "on"})
    assert '<html lang="de" data-theme="dark" data-shortcuts="on" data-user=' in text_of(as_alice, "/")


def test_a_cookie_that_somebody_made_up_changes_nothing(as_alice: Client) -> None:
    as_alice.cookies["theme"] = '"><script>'
    assert 'data-theme="system"' in text_of(as_alice, "/")


@pytest.mark.parametrize("path", [*PAGES, "/c/{}", "/nowhere"])
def test_every_page_forbids_foreign_and_inline_code_and_has_none(as_alice: Client, alice: User, path: str) -> None:
    run = finished_run(alice)
    response = as_alice.get(path.format(run.conversation.public_id))
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "style-src 'self'" in policy
    assert "unsafe" not in policy
    page = response.content.decode()
    assert " style=" not in page
    assert "<style" not in page
    assert " onclick=" not in page
    assert all(
        tag.startswith((' type="module" src="/static/', ' id="transcript-state" type="application/json"'))
        for tag in page.split("<script")[1:]
    )


@pytest.mark.parametrize("path", [*PAGES, "/c/{}"])
def test_pages_speak_german(as_alice: Client, alice: User, path: str) -> None:
    run = finished_run(alice)
    as_alice.cookies[settings.LANGUAGE_COOKIE_NAME] = "de"
    page = text_of(as_alice, path.format(run.conversation.public_id))
    assert '<html lang="de"' in page
    english = ("Sign out", "Waiting for you", "History", "Skip to the content", "Preferences", "Untitled", "Save<")
    assert [words for words in english if words in page] == []
