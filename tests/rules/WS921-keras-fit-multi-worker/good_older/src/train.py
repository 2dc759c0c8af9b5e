import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(10)])
    model.compile(optimizer="sgd", loss="mse")
dataset = tf.data.Dataset.from_tensor_slices((tf.zeros((64, 8)), tf.zeros((64, 10)))).batch(16)
history = model.fit(dataset, epochs=5)
print(history)
