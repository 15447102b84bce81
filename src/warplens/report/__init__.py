"""What people and programs read: terminal, JSON, HTML."""
