"""Numbers as people read them."""

from decimal import Decimal, InvalidOperation

from django import template
from django.utils.formats import number_format

register = template.Library()


@register.filter
def duration(seconds: float | None) -> str:
    """In symbols that are the same in every language, as the ticking clock in the page writes them, too."""
    if seconds is None:
        return "–"
    if 0 < seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{number_format(round(seconds, 1), decimal_pos=1)} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{number} {symbol}" for number, symbol in ((hours, "h"), (minutes, "min"), (rest, "s")) if number]
    return " ".join(parts[:2])


@register.filter
def grouped(number: int | None) -> str:
    return "" if number is None else number_format(number, use_l10n=True, force_grouping=True)


@register.filter
def money(amount: str | Decimal | None) -> str:
    """In the currency of the provider's prices, which is not known here; tiny amounts keep their digits."""
    try:
        value = Decimal(amount or 0)
    except InvalidOperation:
        return ""
    places = 2 if value == 0 or value >= 1 else 4 if value >= Decimal("0.001") else 6
    return number_format(value, decimal_pos=places)
