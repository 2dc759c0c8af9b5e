#!/usr/bin/env python
import tensorflow as tf
import os
from sklearn.preprocessing import StandardScaler
import numpy as np

rng = np.random.default_rng(0)
x = StandardScaler().fit(rng.normal(size=(512, 8))).transform(rng.normal(size=(512, 8)))
y = (x.sum(1) > 0).astype("int32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(2)])
first = model(x[:1]).numpy()
print(first)
loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
print(loss)

model.compile(optimizer=tf.keras.optimizers.SGD(learning_rate=0.1), loss=loss)
model.fit(x, y, batch_size=32, epochs=3, verbose=0)
print("written to", os.getcwd())
