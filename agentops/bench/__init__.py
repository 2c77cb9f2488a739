"""How well the engine does: simulated worlds under seeds, with an oracle that knows the truth."""
