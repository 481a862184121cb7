"""Pages of a list. A cursor is the place of the last row shown, signed for its list and its caller: rows that come or
go meanwhile shift nothing, and a made-up cursor is refused instead of answered with something arbitrary."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from django.core.signing import BadSignature, Signer
from django.db.models import Model, QuerySet

from runs.actions import Refused
from runs.api.queries import read_number

Row = TypeVar("Row", bound=Model)

PARAMETERS = ("limit", "cursor")


@dataclass(frozen=True)
class Pages:
    """How a list is cut. `name` tells its cursors from those of other lists; `field` is unique and never changes."""

    name: str
    field: str = "id"
    is_descending: bool = True
    usual: int = 20
    most: int = 100

    def cut(self, rows: QuerySet[Row], given: Mapping[str, str], whose: str) -> tuple[list[Row], str | None]:
        limit = read_number("limit", given["limit"], 1, self.most) if "limit" in given else self.usual
        signer = Signer(salt=f"cursor.{self.name}.{whose}")
        if "cursor" in given:
            try:
                last = signer.unsign_object(given["cursor"])
            except BadSignature:
                raise Refused(400, "invalid_cursor", "cursor is not one of this list.", "cursor") from None
            rows = rows.filter(**{f"{self.field}__{'lt' if self.is_descending else 'gt'}": last})
        page = list(rows.order_by(f"{'-' if self.is_descending else ''}{self.field}")[: limit + 1])
        if len(page) <= limit:
            return page, None
        return page[:limit], signer.sign_object(getattr(page[limit - 1], self.field))
