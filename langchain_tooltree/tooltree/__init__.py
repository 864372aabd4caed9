"""ToolTree: Monte Carlo tree search over real tool calls."""
