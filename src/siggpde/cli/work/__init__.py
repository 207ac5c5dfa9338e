"""What the commands do once their options are checked; imported when a command is called, for it needs torch."""
