import json
import os

import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(10)])
worker_index = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
if worker_index == 0:
    model.save("outputs/model.keras")
