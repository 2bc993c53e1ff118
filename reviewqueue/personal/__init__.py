"""What a person keeps for themselves beside the requests: snoozes and saved filters."""
