"""What runs inside the engine's processes; imported only where the engine is installed."""
