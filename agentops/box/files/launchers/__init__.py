"""The job's own launchers, each with a fault such launchers have, and the corrected ones."""
