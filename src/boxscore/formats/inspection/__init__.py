"""What is wrong or suspicious in files: every finding of one pass, none of which stops it."""

from boxscore.formats.inspection.files import Reading, inspect_files
from boxscore.formats.inspection.findings import SEVERITIES, Finding, Severity

__all__ = ["SEVERITIES", "Finding", "Reading", "Severity", "inspect_files"]
