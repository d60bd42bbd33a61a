"""From a lesson's text source to its notebook, and from notebooks to runs, reports and solved copies."""

from __future__ import annotations


class PublishingError(Exception):
    """Something the user can mend; the message is one or more sentences for people."""


class UsageError(PublishingError):
    """The request itself makes no sense (an unknown parameter, a missing flag); the message lists what does."""
