#!/usr/bin/env python
# coding: utf-8

# In[1]:


import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(512, 8)).astype("float32")
y = (x.sum(1) > 0).astype("int32")
print(x.shape)


# In[2]:


from tensorflow.keras import Sequential, layers
from tensorflow.keras.optimizers import SGD

model = Sequential([layers.Dense(16, activation="relu"), layers.Dense(1, activation="sigmoid")])
model.compile(optimizer=SGD(learning_rate=0.1), loss="binary_crossentropy")
model.fit(x, y, batch_size=32, epochs=3)
