"""Programs that run inside the box; each is started by path and imports nothing of ours."""
