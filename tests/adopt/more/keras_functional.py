import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

rng = np.random.default_rng(0)
x_train = rng.normal(size=(512, 16)).astype("float32")
y_train = (x_train.sum(1) > 0).astype("int32")

inputs = keras.Input(shape=(16,), name="digits")
x = layers.Dense(32, activation="relu")(inputs)
x = layers.Dense(32, activation="relu")(x)
outputs = layers.Dense(2, name="predictions")(x)
model = keras.Model(inputs=inputs, outputs=outputs)

model.compile(
    optimizer=keras.optimizers.RMSprop(learning_rate=1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
callbacks = [keras.callbacks.ModelCheckpoint("best.keras", save_best_only=True, monitor="loss")]
history = model.fit(x_train, y_train, batch_size=64, epochs=2, callbacks=callbacks)
model.save("my_model.keras")
