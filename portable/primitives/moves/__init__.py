"""Elements that change places: by index arrays, between axes, within triangles."""
