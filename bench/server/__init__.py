"""What the control surface costs: verbs from the click on, events, and memory."""
