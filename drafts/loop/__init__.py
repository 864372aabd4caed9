"""Search for a better answer while an agent with a planner runs."""
