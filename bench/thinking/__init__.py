"""What thinking costs: turns of a model and a tool, streams, redirects; one provider for every loop."""
