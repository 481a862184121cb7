"""The demo model and what belongs to a conversation: it uses files and processes where it is asked to, and not else."""

from typing import Any

import pytest

from gateway.providers.demo.tasks import find_task_call


@pytest.mark.parametrize(
    ("words", "tool", "arguments"),
    [
        (
            "Write a file called notes/plan.txt saying: buy milk",
            "write_file",
            {"path": "notes/plan.txt", "content": "buy milk\n"},
        ),
        ("please write a text file", "write_file", {"path": "hello.txt", "content": "Hello from the demo.\n"}),
        ("Write a file plan.txt.", "write_file", {"path": "plan.txt", "content": "Hello from the demo.\n"}),
        ("Which files are there?", "list_files", {}),
        ("List the files", "list_files", {}),
        ("Read the file notes/plan.txt.", "read_file", {"path": "notes/plan.txt"}),
        (
            "Start a countdown of 60 seconds in the background",
            "start_process",
            {"command": "countdown", "arguments": ["60"]},
        ),
        ("start a heartbeat", "start_process", {"command": "heartbeat", "arguments": []}),
        ("How is the countdown?", "check_process", {}),
        ("check process p2", "check_process", {"id": "p2"}),
        ("End the countdown p3", "end_process", {"id": "p3"}),
        ("stop the countdown", "end_process", {"id": "p1"}),
    ],
)
def test_words_that_ask_for_a_tool(words: str, tool: str, arguments: dict[str, Any]) -> None:
    assert find_task_call(words) == (tool, arguments)


@pytest.mark.parametrize(
    "words", ["How does Stop work?", "Write a long answer", "Where is my data?", "start", "Profile me", "The end."]
)
def test_words_that_ask_for_something_else(words: str) -> None:
    assert find_task_call(words) is None
