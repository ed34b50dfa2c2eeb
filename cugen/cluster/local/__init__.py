"""The cluster of `--scheduler local`.

- `start.started`: starts it, and ends it with the command.
- `host`: a process that has the scheduler, or starts workers. The command's own process is kept free for its searches.
"""
