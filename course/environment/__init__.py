"""What this machine can do for the course: probes that each give one finding in plain words.

Nothing here needs torch, or any other package, to be installed: what is missing becomes a finding with a remedy.
"""

from __future__ import annotations

from course.environment.examine import examine, show_environment
from course.environment.report import Finding, Report

__all__ = ["Finding", "Report", "examine", "show_environment"]
