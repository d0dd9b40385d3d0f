"""Other people's tools and frameworks, under standfast's gate."""
