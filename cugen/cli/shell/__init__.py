"""What shells and `man` know of the command line, made from its parser."""
