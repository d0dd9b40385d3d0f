"""The operator's own way in: a process of its own that sets and lifts halts, whatever the server does (R13, R34)."""
