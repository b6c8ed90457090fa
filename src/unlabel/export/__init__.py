"""Tops that leave a blind run as files: signed, listed, and revoked by the next decision."""
