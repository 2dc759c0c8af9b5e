"""From ``TF_CONFIG`` to processes that have met and a TensorFlow that is set up."""
