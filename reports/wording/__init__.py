"""How claims read: cited values, the sentence catalogue, and its strictness."""
