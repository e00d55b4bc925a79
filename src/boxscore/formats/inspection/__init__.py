"""What is wrong or suspicious in files: every finding of one pass, none of which stops it."""

from boxscore.formats.inspection.findings import SEVERITIES, Finding, Severity
from boxscore.formats.inspection.inspector import Reading, inspect_files

__all__ = ["SEVERITIES", "Finding", "Reading", "Severity", "inspect_files"]
