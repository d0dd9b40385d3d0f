"""What drives runs: this process, for now."""
