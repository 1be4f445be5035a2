"""Arrays of other libraries: how they come in, and how results go back."""
