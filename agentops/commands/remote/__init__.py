"""Programs that run on hosts: sent there as text, imported by nothing here.

Python 3.9 and its standard library only; each has a twin in POSIX sh where that is possible. What
they may do (look, wait, signal, write) is what their command declares.
"""
