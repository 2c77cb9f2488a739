"""Packaged templates and style, by name."""

from importlib.resources import files


def template(name: str) -> str:
    """The text of a packaged template."""
    return files("reports.templates").joinpath(name).read_text("utf-8")
