"""The twenty-four rules, by what they look at."""
