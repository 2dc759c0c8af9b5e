import jax
import jax.numpy as jnp


def loss(w, x, y):
    return jnp.mean((x @ w - y) ** 2)


w = jnp.zeros(4)
for _ in range(100):
    w = w - 0.1 * jax.grad(loss)(w, jnp.ones((8, 4)), jnp.ones(8))
