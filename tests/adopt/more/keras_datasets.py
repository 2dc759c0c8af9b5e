"""Keras on datasets of tf.data, with callbacks that write files, and arrays that NumPy saves."""

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from tensorflow import keras

BATCH_SIZE = 32


def make_dataset(x, y, batch_size, training=False):
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    if training:
        dataset = dataset.shuffle(2000)
    return dataset.batch(batch_size).prefetch(tf.data.AUTOTUNE)


digits = load_digits()
x, y = digits.data.astype("float32") / 16, digits.target
train_rows = make_dataset(x[:1200], y[:1200], BATCH_SIZE, training=True)
val_rows = tf.data.Dataset.from_tensor_slices((x[1200:], y[1200:]))
val_rows = val_rows.batch(BATCH_SIZE)
for shown, _ in val_rows.unbatch().batch(1).take(1):
    print(shown.shape)

model = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(10)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=loss, metrics=["accuracy"])
history = model.fit(
    train_rows,
    validation_data=val_rows,
    epochs=3,
    steps_per_epoch=len(x[:1200]) // BATCH_SIZE,
    callbacks=[
        keras.callbacks.CSVLogger("history.csv"),
        keras.callbacks.TensorBoard(log_dir="logs"),
        keras.callbacks.EarlyStopping(patience=2),
    ],
)
print(model.evaluate(val_rows))
np.save("predictions.npy", model.predict(val_rows))
