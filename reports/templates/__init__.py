"""Page templates: data files only."""
