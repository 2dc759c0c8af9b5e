import numpy as np
import tensorflow as tf


class Regression:
    def fit(self, x, y, epochs=10):
        weight = tf.Variable(0.0)
        for _ in range(epochs):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((weight * x - y) ** 2)
            weight.assign_sub(0.1 * tape.gradient(loss, weight))


x = np.linspace(0, 1, 64)
model = Regression()
model.fit(x, 2 * x)
