"""SIT-Graph: which tool followed which in successful runs, and in what state."""
