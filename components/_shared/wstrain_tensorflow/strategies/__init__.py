"""The two ways to distribute a TensorFlow training."""
