"""What a search gains by what was learnt before: the arms of an experience on unseen tasks, each by itself and all."""
