"""Digits with Keras."""
import numpy as np
from sklearn.datasets import load_digits
import tensorflow as tf
from tensorflow.keras import layers

tf.random.set_seed(1)
digits = load_digits()
x = (digits.images[:1024, :, :, None] / 16).astype(np.float32)
y = digits.target[:1024]

# The network.
model = tf.keras.Sequential([
    layers.Conv2D(8, 3, activation="relu", input_shape=(8, 8, 1)),
    layers.Flatten(),
    layers.Dense(10),
])
model.compile(
    optimizer=tf.keras.optimizers.SGD(learning_rate=0.05),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)

history = model.fit(x, y, epochs=2, batch_size=64, verbose=2)
print("loss", history.history["loss"][-1])
model.save("digits.keras")
