"""Programs that run inside the stage; each is started by path and imports nothing of ours."""
