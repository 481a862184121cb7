"""Processes that go on between the runs of a conversation."""
