"""The proof of an adoption: the original in one process, the adopted script in two, and their loss curves."""
