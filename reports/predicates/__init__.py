"""Pure predicates: what a report may state, each re-evaluated on the journal."""
