"""What a person sets for their own inbox: snoozes and saved filters."""
