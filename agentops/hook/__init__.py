"""What a typed shell command would do on a remote host, and which agentops call does it instead."""
