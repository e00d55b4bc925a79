"""Rows of detections and truths: the two tables that every way in makes, and the step between them and matching."""
