"""What a party applies to what it sends, and the accountant of what that leaves to learn."""
