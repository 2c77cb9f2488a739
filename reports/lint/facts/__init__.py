"""What a sentence says happened, held against what is recorded to have happened."""
