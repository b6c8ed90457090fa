"""What the parties of a real federation run: kits, the engine, the processes of each house."""
