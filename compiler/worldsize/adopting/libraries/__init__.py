"""Scripts whose loop a library has: Lightning, Transformers, Accelerate, Keras; and notebooks."""
