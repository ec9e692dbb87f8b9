"""Quantities as people write them."""

import re

from .errors import InvalidArgument

_RATES = {"bit": 0.125, "kbit": 125.0, "mbit": 125e3, "gbit": 125e6}
_TIMES = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


def link(text: str) -> tuple[float, float]:
    """(bytes a second, seconds) from a rate and a latency such as "1gbit,50us"."""
    found = re.fullmatch(r"([\d.]+)(bit|kbit|mbit|gbit)(?:,([\d.]+)(us|ms|s))?", text)
    if not found:
        raise InvalidArgument(f"{text} is no link: write a rate and a latency like 1gbit,50us")
    return float(found[1]) * _RATES[found[2]], float(found[3] or 0) * _TIMES[found[4] or "s"]
