"""Problems in files: all findings in one pass, which no finding stops."""

from boxscore.formats.inspection.findings import SEVERITIES, Finding, Severity
from boxscore.formats.inspection.inspector import Reading, inspect_files

__all__ = ["SEVERITIES", "Finding", "Reading", "Severity", "inspect_files"]
