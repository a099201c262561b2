"""What the command line does; ``vlatools.cli`` only parses."""
