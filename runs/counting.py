"""Counters in Django's cache, for those who let something happen only so often. Each process has its own."""

from django.core.cache import cache


def count(name: str, seconds: float) -> int:
    """One more: how often it has been by now. It is forgotten after so many seconds."""
    while True:
        try:
            return cache.incr(name)
        except ValueError:  # the first one, or it was forgotten in this moment
            if cache.add(name, 1, timeout=seconds):
                return 1
