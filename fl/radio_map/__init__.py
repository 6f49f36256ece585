"""Radio maps of virtual obstacles: grid, obstacles, cells under links, and the theory of their
gradients.
"""
