"""What families of devices share."""
