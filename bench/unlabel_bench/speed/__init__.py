"""What things cost: time and bytes."""
