import gymnasium as gym
import torch

env = gym.make("CartPole-v1")
policy = torch.nn.Linear(4, 2)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
for episode in range(100):
    state, _ = env.reset()
    chosen = torch.distributions.Categorical(logits=policy(torch.as_tensor(state)))
    action = chosen.sample()
    state, reward, *_ = env.step(action.item())
    loss = -chosen.log_prob(action) * reward
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
