"""What estimates give away: distances between estimated and true places."""
