import matplotlib

COLOURS = matplotlib.colormaps
