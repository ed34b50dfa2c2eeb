"""Work of a command in several processes, and on clusters."""
