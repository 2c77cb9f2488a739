"""What takes hours: run by ``make torture``, never in CI."""
