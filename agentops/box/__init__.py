"""The trap box: a private host with real processes, for the demo, the tests and the benchmark."""
