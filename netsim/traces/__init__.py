"""Reading mobility and measurement traces."""
