"""How much a tripwire sees, what it cries wolf at, and what it costs (R33)."""
