"""A foreign program, such as a notebook, that holds a DuckDB file open read-write.

usage: index_holder.py FILE; prints "held", goes when its stdin closes.
"""

import os
import sys

import duckdb


def main() -> None:
    """Hold the file until told."""
    connection = duckdb.connect(sys.argv[1])
    connection.execute("CREATE TABLE IF NOT EXISTS mine(x INTEGER)")
    connection.execute("INSERT INTO mine VALUES (1)")
    os.write(1, b"held\n")
    sys.stdin.read()


if __name__ == "__main__":
    main()
