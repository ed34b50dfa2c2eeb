"""Every input of the gallery in every memory: what each request gives."""
