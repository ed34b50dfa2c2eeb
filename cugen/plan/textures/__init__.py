"""2-D textures, and the limits of texture objects."""
