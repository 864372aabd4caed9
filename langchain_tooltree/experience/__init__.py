"""Experience: what happened, and where it is kept."""
