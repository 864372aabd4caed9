"""Messages: the only place that takes the messages of a conversation apart."""
