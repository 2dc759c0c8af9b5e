import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [None, 4])
w = tf.Variable(tf.zeros([4, 1]))
train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.matmul(x, w)))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    session.run(train, {x: [[1.0, 2.0, 3.0, 4.0]]})
