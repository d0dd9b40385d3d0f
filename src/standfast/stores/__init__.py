"""Where runs are kept."""
