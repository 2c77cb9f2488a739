"""Typed remote operations for LLM agents on GPU hosts.

Each action is a typed command, durable in a journal before it runs and complete with its output
after; a pure engine decides the next step. Start with ``agentops.cli``; ARCHITECTURE.md draws the
storeys. Nothing is exported here, so that asking for one part loads no other.
"""
