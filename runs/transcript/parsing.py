"""JSON as a model or a tool wrote it. It may hold what no page can: half of a character (`"\\ud83d"`, which UTF-8 does
not have), or lists in lists, deeper than Python follows. Such a text is shown as it is."""

import json
from typing import Any

DEEPEST = 50


def read_json(text: str) -> Any:
    """Raises `ValueError` also for what could be read and not be shown."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("It is too deep.") from None
    _check_depth(found)
    json.dumps(found, ensure_ascii=False).encode()
    return found


def _check_depth(found: Any) -> None:
    level = [found]
    for _ in range(DEEPEST):
        level = [inner for value in level for inner in _inside(value)]
        if not level:
            return
    raise ValueError("It is too deep.")


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
