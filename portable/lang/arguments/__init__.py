"""What a launch is given: arguments, their structs, and the signature that they have."""
