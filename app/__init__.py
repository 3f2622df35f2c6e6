"""The program that people run. What follows is set before numpy is imported, which reads it then."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
"""numpy's threads go on waiting at full speed after each product, and take a core from those of the model. The products
that numpy makes here are small."""
