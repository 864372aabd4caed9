"""What an agent has been through: the one object for people, and what is learnt, forgotten and copied."""
