"""What publications claim, and what our runs say of it."""
