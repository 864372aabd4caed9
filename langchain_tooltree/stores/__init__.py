"""Stores: where experience can be kept."""
