"""Audits of privacy noise: what one user moves before the noise, and the noise itself, as a run plays them."""
