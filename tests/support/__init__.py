"""What tests stand on: stages, journals, peers and fixtures, none of them a mock."""
