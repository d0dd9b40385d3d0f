"""What a durable step costs, beside raw SQLite and three peers, as ratios of one run."""
