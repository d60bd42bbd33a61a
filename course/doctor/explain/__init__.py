"""``explain``: which fault an exception, a traceback or a log line tells of, why it happens and what to do."""

from __future__ import annotations

from course.doctor.explain.explanation import Explanation, Finding, explain

__all__ = ["Explanation", "Finding", "explain"]
