"""What is copied into every bundle: the verifiers. Nothing here imports the journal."""
