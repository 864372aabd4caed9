"""Collecting: experience from training tasks, attempt after attempt."""
