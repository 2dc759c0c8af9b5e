import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(10)])
    model.compile(optimizer="sgd", loss="mse")
dataset = tf.data.Dataset.from_tensor_slices((tf.zeros((64, 8)), tf.zeros((64, 10)))).batch(16)


def train_step(batch):
    rows, labels = batch
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(rows) - labels))
    model.optimizer.apply_gradients(zip(tape.gradient(loss, model.weights), model.weights))


for batch in strategy.experimental_distribute_dataset(dataset):
    strategy.run(train_step, args=(batch,))
