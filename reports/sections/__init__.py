"""The sections of a report: which claims stand where."""
