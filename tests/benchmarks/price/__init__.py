"""What a search costs beside the plain agent, on the same task with the same model."""
