"""See `domain.figures`: seconds, sizes and dates as people read them."""

from stoker.domain.figures import UNKNOWN, counted, moment, number, seconds, size

__all__ = ["UNKNOWN", "counted", "moment", "number", "seconds", "size"]
