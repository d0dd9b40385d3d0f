"""Evidence: what shows somebody else that a record is what was written when it was written."""
