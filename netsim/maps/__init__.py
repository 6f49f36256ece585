"""Map files: GeoJSON features, coordinate systems, the local plane."""
