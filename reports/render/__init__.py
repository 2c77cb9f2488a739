"""Forms of a report: Markdown, HTML, JSON, one line. Each a pure function of the model."""
